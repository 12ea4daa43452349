//! Program side of the main thread's thread-local storage.
//!
//! The static TLS block and the thread's control block contain data of all sides: of the program's
//! modules, of the modules of the other namespaces, and the C library's record of the thread. Only
//! three parts are saved: the data of the program's modules, the slots of the program's pthread
//! keys, and the list of the robust mutexes that the main thread holds. The image does not contain
//! the pages of this storage.
#![allow(unsafe_code)]

use super::UserError;
use crate::{process_info, system_calls};
use std::ffi::c_void;
use understudy_abi::RUNTIME_FIRST_KEY;
use understudy_elf::{LoadedModule, ProgramHeader};
use understudy_image::pages::AddrRange;
use understudy_mpi::library;
use xxhash_rust::xxh3::xxh3_64;

/// Range of memory with its name and content.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
struct ThreadLocalRange {
    module: String,
    address: u64,
    bytes: Vec<u8>,
}

/// Thread-local state at a cut.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct ThreadLocalsAtCut {
    ranges: Vec<ThreadLocalRange>,
    /// MXCSR and the x87 control word.
    floating_point: (u32, u16),
}

/// Loaded module, with the parts that must be at equal addresses in all ranks.
pub struct TlsModule {
    /// Path; empty for the program's executable.
    pub name: String,
    /// Start and end address of its segments, page-aligned.
    pub ranges: Vec<(u64, u64)>,
    /// Address and length of its thread-local block in this thread.
    tls: Option<(u64, usize)>,
    /// Checksum of the notes, if they contain a build id.
    ///
    /// The build id is the linker's checksum of the file; most modules have one.
    notes: Option<u64>,
}

impl TlsModule {
    fn new(module: &LoadedModule) -> TlsModule {
        // Kind NT_GNU_BUILD_ID, owner "GNU" (elf(5)).
        const BUILD_ID: &[u8] = b"\x03\0\0\0GNU\0";
        let range = |header: &ProgramHeader| {
            let start = (module.base() + header.address) as u64;
            (start & !4095, (start + header.size as u64 + 4095) & !4095)
        };
        let tls = module.headers_of_kind(ProgramHeader::TLS).next();
        // SAFETY: notes are in a read-only segment.
        let notes = |header| unsafe { module.memory(header) };
        let notes: Vec<&[u8]> = module
            .headers_of_kind(ProgramHeader::NOTE)
            .map(notes)
            .collect();
        let notes = notes.concat();
        let has_build_id = notes.windows(8).any(|window| window == BUILD_ID);
        TlsModule {
            name: String::from_utf8_lossy(module.name()).into_owned(),
            ranges: module
                .headers_of_kind(ProgramHeader::LOAD)
                .map(range)
                .collect(),
            tls: tls
                .filter(|_| !module.tls_block.is_null())
                .map(|header| (module.tls_block as u64, header.size)),
            notes: has_build_id.then(|| xxh3_64(&notes)),
        }
    }

    /// Returns a checksum that identifies the module's build.
    pub fn build(&self) -> u64 {
        let path = if self.name.is_empty() {
            "/proc/self/exe"
        } else {
            &self.name
        };
        let file = || xxh3_64(&std::fs::read(path).unwrap_or_default());
        self.notes.unwrap_or_else(file)
    }
}

/// Returns a checksum that identifies the build of this library.
pub fn own_build() -> u64 {
    let here = own_build as *const () as u64;
    let is_here = |module: &TlsModule| {
        module
            .ranges
            .iter()
            .any(|&(start, end)| (start..end).contains(&here))
    };
    let mut modules: Vec<TlsModule> = Vec::new();
    library::for_each_own_module(|module| modules.push(TlsModule::new(module)));
    modules
        .iter()
        .find(|module| is_here(module))
        .map_or(0, TlsModule::build)
}

/// Calls `see` for each module of the program side, in load order.
pub(super) fn for_each_module(see: impl FnMut(&LoadedModule)) {
    // SAFETY: dl_iterate_phdr(3) of the program's namespace.
    unsafe {
        understudy_elf::for_each_module(
            |callback, data| {
                (process_info::info().program_iterate_phdr)(callback as *const c_void, data);
            },
            see,
        )
    };
}

/// Returns the modules of the program side, in load order.
pub fn modules() -> Vec<TlsModule> {
    let mut modules: Vec<TlsModule> = Vec::new();
    for_each_module(|module| modules.push(TlsModule::new(module)));
    modules
}

/// Returns the ranges with the values of the program side's pthread keys.
///
/// The ranges are the block of the first 32 keys in the control block, and the pointers to the
/// other blocks with keys of the program side.
fn key_slots() -> Vec<(u64, usize)> {
    let offset = system_calls::thread_db_offset(c"_thread_db_pthread_specific");
    let size = system_calls::thread_db_size(c"_thread_db_sizeof_pthread_key_data");
    let (Some(offset), Some(key_size)) = (offset, size) else {
        return Vec::new();
    };
    const KEYS_PER_BLOCK: u32 = 32;
    let table = control_block() + offset;
    // SAFETY: the first word of the table in this thread's control block.
    let first_block = unsafe { (table as *const u64).read() };
    let mut slots = vec![(
        table + 8,
        (RUNTIME_FIRST_KEY / KEYS_PER_BLOCK - 1) as usize * 8,
    )];
    if first_block != 0 {
        slots.push((first_block, KEYS_PER_BLOCK as usize * key_size as usize));
    }
    slots
}

/// Returns the address of this thread's control block.
pub fn control_block() -> u64 {
    understudy_abi::control_block::address() as u64
}

/// Returns a checksum of the stack protector's value and the pointer guard.
///
/// Stacks and saved contexts contain these values.
pub fn guards() -> u64 {
    // SAFETY: words of glibc's thread control block on x86-64.
    let guards = unsafe { (control_block() as *const [u64; 2]).byte_add(0x28).read() };
    xxh3_64(&guards.map(u64::to_le_bytes).concat())
}

/// Returns the range with the list of the main thread's held robust mutexes (get_robust_list(2)).
///
/// The range consists of the list's head, in the control block, and the preceding pointer, with
/// which glibc makes the list doubly linked.
fn robust_list() -> Option<(u64, usize)> {
    const POINTER: usize = size_of::<u64>();
    let (mut head, mut length) = (0u64, 0usize);
    // SAFETY: get_robust_list(2) of the main thread writes both variables.
    unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            libc::getpid(),
            &raw mut head,
            &raw mut length,
        )
    };
    // A list that the program itself has registered is in the program's memory.
    let is_glibcs = (control_block()..control_block() + 4096).contains(&head);
    is_glibcs.then_some((head - POINTER as u64, length + POINTER))
}

impl ThreadLocalsAtCut {
    /// Returns MXCSR and the x87 control word of the thread that made the cut.
    pub fn floating_point(&self) -> (u32, u16) {
        self.floating_point
    }

    /// Returns the addresses of the saved ranges.
    pub fn ranges(&self) -> Vec<AddrRange> {
        let range = |saved: &ThreadLocalRange| {
            AddrRange::new(saved.address, saved.address + saved.bytes.len() as u64)
        };
        self.ranges.iter().map(range).collect()
    }
}

/// Returns the ranges that are saved: name, address and length.
fn saved_ranges() -> Vec<(String, u64, usize)> {
    let modules = modules()
        .into_iter()
        .filter_map(|module| module.tls.map(|(at, length)| (module.name, at, length)));
    modules
        .chain(
            key_slots()
                .into_iter()
                .map(|(at, length)| ("pthread keys".to_owned(), at, length)),
        )
        .chain(robust_list().map(|(at, length)| ("robust mutexes".to_owned(), at, length)))
        .collect()
}

/// Copies the thread-local state.
pub fn capture() -> ThreadLocalsAtCut {
    let copy = |(module, address, length): (String, u64, usize)| ThreadLocalRange {
        module,
        address,
        // SAFETY: thread-local memory of this thread.
        bytes: unsafe { std::slice::from_raw_parts(address as *const u8, length) }.to_vec(),
    };
    let (mut mxcsr, mut control) = (0u32, 0u16);
    // SAFETY: stores the two control registers.
    unsafe {
        std::arch::asm!(
            "stmxcsr [{}]",
            "fnstcw [{}]",
            in(reg) &mut mxcsr,
            in(reg) &mut control,
            options(nostack)
        )
    };
    ThreadLocalsAtCut {
        ranges: saved_ranges().into_iter().map(copy).collect(),
        floating_point: (mxcsr, control),
    }
}

/// Restores the thread-local state.
pub fn restore(saved: &ThreadLocalsAtCut) -> Result<(), UserError> {
    let current = saved_ranges();
    for range in &saved.ranges {
        let exists = current
            .iter()
            .any(|(_, at, length)| *at == range.address && *length == range.bytes.len());
        if !exists {
            return Err(UserError::ThreadLocals(range.module.clone()));
        }
        // SAFETY: thread-local memory of the program side, of this length.
        unsafe {
            (range.address as *mut u8)
                .copy_from_nonoverlapping(range.bytes.as_ptr(), range.bytes.len())
        };
    }
    let (mxcsr, control) = saved.floating_point;
    // SAFETY: loads values that were stored by `capture`.
    unsafe {
        std::arch::asm!(
            "ldmxcsr [{}]",
            "fldcw [{}]",
            in(reg) &mxcsr,
            in(reg) &control,
            options(nostack)
        )
    };
    Ok(())
}
