//! Stack of the program in a process, read from outside.
//!
//! The process is neither stopped nor changed. During a call of MPI, the registers of the program
//! are in the frame of the call; otherwise the kernel reports the stack pointer and the program
//! counter of a process that does not run (proc_pid_syscall(5)).

use super::process_memory::{ProcessMemory, ProgramRegisters};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use std::collections::BTreeSet;
use std::ops::Range;
use understudy_formats::proc_maps::{MappedFile, MappedFiles};
use understudy_wire::line::StackFrame;

/// Largest number of frames that are returned.
const MAX_FRAMES: usize = 16;
/// Limit of unwind tables that are read from one file.
const MAX_TABLE_BYTES: u64 = 64 << 20;
/// Bytes of the stack that are searched for a saved frame pointer.
const SEARCHED_BYTES: u64 = 16 << 10;
/// Largest distance of two frame pointers that are linked.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// Type of the program header with the address of `.eh_frame_hdr` (elf(5)).
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_LOAD: u32 = 1;
/// Encoding of the address of `.eh_frame` by all common linkers.
///
/// The address is relative, in four bytes with a sign.
const PCREL_SDATA4: u8 = 0x1b;

/// Returns the frames of the program's stack, the innermost first.
///
/// The outermost frames are missing if they cannot be found.
pub fn walk(memory: &ProcessMemory, pid: u32) -> Vec<StackFrame> {
    let files = MappedFiles::read(pid);
    let is_code = |address: u64| files.at(address).is_some_and(|file| file.is_executable);
    let registers = match memory.registers_of_call() {
        Some(registers) => registers,
        None => match registers_in_kernel(memory, pid, is_code) {
            Some(registers) => registers,
            None => return Vec::new(),
        },
    };
    unwind(memory, &files, registers)
}

fn unwind(
    memory: &ProcessMemory,
    files: &MappedFiles,
    registers: ProgramRegisters,
) -> Vec<StackFrame> {
    let mut unwinder = UnwinderX86_64::<Vec<u8>>::new();
    let mut cache = CacheX86_64::<_>::new();
    let mut known = BTreeSet::new();
    let mut frames = Vec::new();
    let mut address = registers.address;
    let (stack, frame) = (registers.stack_pointer, registers.frame_pointer);
    let mut unwound = UnwindRegsX86_64::new(address.address(), stack, frame);
    let mut read_stack = |at| memory.word(at).map_err(drop);
    while frames.len() < MAX_FRAMES {
        let Some(file) = files
            .at(address.address_for_lookup())
            .filter(|file| file.is_executable)
        else {
            break;
        };
        frames.push(StackFrame {
            path: file.path.to_string_lossy().into_owned(),
            offset: address.address() - memory.base_of_addresses(&file),
        });
        if known.insert(file.start)
            && let Some(module) = module(memory, &file)
        {
            unwinder.add_module(module);
        }
        let next = unwinder.unwind_frame(address, &mut unwound, &mut cache, &mut read_stack);
        match next
            .ok()
            .flatten()
            .and_then(FrameAddress::from_return_address)
        {
            Some(next) => address = next,
            None => break,
        }
    }
    frames
}

/// Returns the registers of a process that sleeps or is stopped outside of MPI.
fn registers_in_kernel(
    memory: &ProcessMemory,
    pid: u32,
    is_code: impl Fn(u64) -> bool,
) -> Option<ProgramRegisters> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let (stack_pointer, counter) = parse_registers(&text)?;
    Some(ProgramRegisters {
        address: FrameAddress::from_instruction_pointer(counter),
        stack_pointer,
        frame_pointer: probable_frame_pointer(memory, stack_pointer, is_code).unwrap_or_default(),
    })
}

/// Returns stack pointer and program counter, the last words of the line.
///
/// `None` if the process runs.
fn parse_registers(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().rev();
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (counter, stack_pointer) = (number()?, number()?);
    Some((stack_pointer, counter))
}

/// Searches the stack for the innermost frame of a function that uses the frame pointer.
///
/// The kernel does not report that register. Functions without a frame pointer do not need it, and
/// those of the C library keep it.
fn probable_frame_pointer(
    memory: &ProcessMemory,
    stack_pointer: u64,
    is_code: impl Fn(u64) -> bool,
) -> Option<u64> {
    let candidates = (stack_pointer..stack_pointer.checked_add(SEARCHED_BYTES)?).step_by(8);
    candidates.into_iter().find(|&at| {
        let linked = at + 1..at + MAX_FRAME_BYTES;
        let saved = memory.word(at).ok().filter(|saved| linked.contains(saved));
        saved.is_some() && memory.word(at + 8).is_ok_and(&is_code)
    })
}

/// Reads the unwind tables of a file from the memory of the process.
///
/// The file itself is not opened, because its file system may not answer.
fn module(memory: &ProcessMemory, file: &MappedFile<'_>) -> Option<Module<Vec<u8>>> {
    let base = file.start;
    let headers = program_headers(memory, base)?;
    let loaded = |header: &&ProgramHeader| header.kind == PT_LOAD;
    let lowest = headers
        .iter()
        .filter(loaded)
        .map(|it| it.range.start)
        .min()?;
    let bias = base.wrapping_sub(lowest & !0xfff);
    let index = headers
        .iter()
        .find(|it| it.kind == PT_GNU_EH_FRAME)?
        .range
        .clone();
    let bytes = |range: &Range<u64>| {
        let length = (range.end - range.start).min(MAX_TABLE_BYTES) as usize;
        let mut bytes = vec![0; length];
        memory
            .read(range.start.wrapping_add(bias), &mut bytes)
            .ok()?;
        Some(bytes)
    };
    let index_bytes = bytes(&index)?;
    if index_bytes.get(1) != Some(&PCREL_SDATA4) {
        return None;
    }
    let distance = i32::from_le_bytes(index_bytes.get(4..8)?.try_into().ok()?);
    let start = index
        .start
        .wrapping_add(4)
        .wrapping_add_signed(distance.into());
    let mut segments = headers.iter().filter(loaded);
    let end = segments.find(|it| it.range.contains(&start))?.range.end;
    let table = start..end;
    let sections = ExplicitModuleSectionInfo {
        eh_frame: Some(bytes(&table)?),
        eh_frame_svma: Some(table),
        eh_frame_hdr: Some(index_bytes),
        eh_frame_hdr_svma: Some(index),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(
        file.path.to_string_lossy().into_owned(),
        file.start..file.end,
        bias,
        sections,
    ))
}

struct ProgramHeader {
    kind: u32,
    /// Addresses in the file.
    range: Range<u64>,
}

/// Reads the program headers of a mapped file (elf(5), Elf64_Ehdr and Elf64_Phdr).
fn program_headers(memory: &ProcessMemory, base: u64) -> Option<Vec<ProgramHeader>> {
    let mut header = [0; 64];
    memory.read(base, &mut header).ok()?;
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    };
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (offset, size, count) = (
        number(&header[32..40]),
        number(&header[54..56]),
        number(&header[56..58]),
    );
    let mut headers = Vec::new();
    for index in 0..count {
        let mut entry = [0; 56];
        let at = base.checked_add(offset)?.checked_add(index * size)?;
        memory.read(at, &mut entry).ok()?;
        let start = number(&entry[16..24]);
        headers.push(ProgramHeader {
            kind: number(&entry[0..4]) as u32,
            range: start..start.checked_add(number(&entry[40..48]))?,
        });
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_sleeping_process_are_read() {
        let sleeps = "35 0x7ffd 0x0 0x0 0x0 0x0 0x0 0x7ffd10 0x7f0012\n";
        assert_eq!(parse_registers(sleeps), Some((0x7f_fd10, 0x7f_0012)));
        assert_eq!(
            parse_registers("-1 0x7ffd10 0x40\n"),
            Some((0x7f_fd10, 0x40))
        );
        assert_eq!(parse_registers("running\n"), None);
        assert_eq!(parse_registers(""), None);
    }

    #[test]
    fn the_stack_of_a_sleeping_thread_is_walked_to_its_start() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep(1)");
        let memory = ProcessMemory::without_calls(child.id()).expect("a child");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut frames = Vec::new();
        // The child must reach its sleep first.
        while frames.len() < 3 && std::time::Instant::now() < until {
            frames = walk(&memory, child.id());
        }
        let _ = child.kill();
        let _ = child.wait();
        let names: Vec<_> = frames.iter().map(|frame| frame.path.as_str()).collect();
        assert!(names[0].contains("libc"), "{names:?}");
        assert!(
            names
                .iter()
                .any(|name| name.ends_with("/sleep") || name.contains("coreutils")),
            "{names:?}"
        );
    }
}
