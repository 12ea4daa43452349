//! Samples of a process: its state in the kernel, and its last MPI call.
//!
//! The call is read from the memory of the process through `/proc/PID/mem`, which a parent may
//! open (ptrace(2), "Ptrace access mode checking"). Every call of the program removes a mark in
//! that memory, which each sample sets again. So calls are noticed although the process does
//! nothing for this purpose.

use rustix::io::pread;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use understudy_formats::proc_stat;
use understudy_protocol::{CallSample, InactivityKind, ProcessSample, ProcessState};
use understudy_wire::line::{Activity, CallAddresses, CallPlace, FRAME_BYTES, SharedPage};

/// Bytes of the longest name of a procedure.
const MAX_NAME_BYTES: u64 = 64;
/// Number of names in the table of procedures, and more.
const MAX_SLOTS: u64 = 1 << 16;
/// Distance of the saved rbp from the beginning of a frame.
const RBP_OFFSET: u64 = 88;
/// Prefix of the names of this product's libraries.
const OWN_LIBRARY: &str = "libunderstudy";
/// Type of program files that are mapped at fixed addresses (elf(5)).
const ET_EXEC: u16 = 2;

/// Milliseconds of a clock tick (USER_HZ, which is 100 on x86-64).
const TICK_MS: u64 = 10;
/// Offset of the mark from the state of a call ([`CallAddresses::state`]).
const MARK: u64 = 1;
/// Offset of the byte that is 1 during a call.
const IN_CALL: u64 = 2;

/// A process whose state is sampled.
pub struct SampledProcess {
    pid: u32,
    /// `None` if the memory of the process cannot be accessed.
    memory: Option<ProcessMemory>,
}

/// Memory of a process, with the addresses of its last call.
struct ProcessMemory {
    file: File,
    state: u64,
    frame_end: u64,
    names: u64,
}

impl SampledProcess {
    /// Opens the process that has this page; `None` until it has set its addresses.
    pub fn open(pid: u32, page: impl AsFd) -> Option<SampledProcess> {
        let word = |offset: usize| {
            let mut bytes = [0; 8];
            let offset = (offset_of!(SharedPage, calls) + offset) as u64;
            let read = pread(&page, &mut bytes, offset).ok()?;
            let word = u64::from_ne_bytes(bytes);
            (read == bytes.len() && word != 0).then_some(word)
        };
        let frame_end = word(offset_of!(CallAddresses, frame_end))?;
        let names = word(offset_of!(CallAddresses, names))?;
        let state = word(offset_of!(CallAddresses, state))?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"));
        if let Err(error) = &file {
            log::info!("the calls of process {pid} are not watched: {error}");
        }
        let memory = file.ok().map(|file| ProcessMemory {
            file,
            state,
            frame_end,
            names,
        });
        Some(SampledProcess { pid, memory })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the state of the process; `None` if it does not exist any more.
    pub fn sample(&self) -> Option<ProcessSample> {
        let stat = proc_stat::Stat::read(self.pid)?;
        let ticks = stat.number::<u64>(proc_stat::USER_TIME)?
            + stat.number::<u64>(proc_stat::SYSTEM_TIME)?;
        let state = match stat.field(proc_stat::STATE)? {
            "T" => ProcessState::Stopped,
            "t" => ProcessState::Traced,
            "D" => ProcessState::Blocked,
            "Z" | "X" => return None,
            _ => ProcessState::Other,
        };
        Some(ProcessSample {
            state,
            processor_time: Duration::from_millis(ticks * TICK_MS),
            bytes: self.bytes_of_files(),
            calls: self.memory.as_ref().and_then(|memory| memory.sample().ok()),
        })
    }

    /// Returns the number of bytes that the process has read and written (proc_pid_io(5)).
    fn bytes_of_files(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.pid)).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| {
            let (name, number) = line.split_once(": ")?;
            ["rchar", "wchar"].contains(&name).then_some(number)
        });
        numbers
            .filter_map(|number| number.parse::<u64>().ok())
            .sum()
    }

    /// Returns the present activity; `None` if the process does not exist any more.
    pub fn activity(&self) -> Option<Activity> {
        let stat = proc_stat::Stat::read(self.pid)?;
        let is_in_call = self.memory.as_ref().is_some_and(ProcessMemory::is_in_call);
        Some(match stat.field(proc_stat::STATE)? {
            "T" => Activity::Stopped,
            "t" => Activity::Traced,
            "D" => self.describe(InactivityKind::Blocked),
            _ if is_in_call => Activity::InCall(self.place()),
            "S" => self.describe(InactivityKind::Idle),
            _ => Activity::Computing {
                after: self.place(),
            },
        })
    }

    /// Describes the inactive process.
    pub fn describe(&self, kind: InactivityKind) -> Activity {
        let kernel_function = || {
            let name = std::fs::read_to_string(format!("/proc/{}/wchan", self.pid));
            name.unwrap_or_default()
        };
        match kind {
            InactivityKind::Stopped => Activity::Stopped,
            InactivityKind::Traced => Activity::Traced,
            InactivityKind::Blocked => Activity::Blocked {
                kernel_function: kernel_function(),
            },
            InactivityKind::InCall => Activity::InCall(self.place()),
            InactivityKind::Idle => Activity::Idle {
                after: self.place(),
                kernel_function: kernel_function(),
            },
        }
    }

    /// Returns the place of the current or last call.
    fn place(&self) -> CallPlace {
        let Some(memory) = &self.memory else {
            return CallPlace::default();
        };
        let address = |address: io::Result<u64>| address_in_file(self.pid, address.ok()?);
        let own = address(memory.return_address());
        let address = own
            .filter(|name| !name.starts_with(OWN_LIBRARY))
            // The preload library has made the call for the program.
            .or_else(|| address(memory.callers_return_address()));
        CallPlace {
            procedure: memory.procedure().unwrap_or_default(),
            address: address.unwrap_or_default(),
        }
    }
}

impl ProcessMemory {
    fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, address)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Reads the state of the last call, and sets the mark for the next sample.
    fn sample(&self) -> io::Result<CallSample> {
        let mut state = [0; 3];
        self.file.read_exact_at(&mut state, self.state)?;
        let [_, mark, is_in_call] = state;
        if mark == 0 {
            self.file.write_all_at(&[1], self.state + MARK)?;
        }
        let is_in_call = is_in_call != 0;
        Ok(CallSample {
            has_called: mark == 0,
            is_in_call,
            is_in_file_call: is_in_call
                && self
                    .procedure()
                    .is_some_and(|name| name.starts_with("MPI_File_")),
        })
    }

    /// True during a call.
    fn is_in_call(&self) -> bool {
        let mut byte = [0];
        let read = self.file.read_exact_at(&mut byte, self.state + IN_CALL);
        read.is_ok() && byte != [0]
    }

    /// Returns the address of the last call's frame.
    fn frame(&self) -> io::Result<u64> {
        Ok(self.word(self.frame_end)?.wrapping_sub(FRAME_BYTES))
    }

    /// Returns the name of the procedure of the current or last call.
    fn procedure(&self) -> Option<String> {
        let slot = self.frame().and_then(|frame| self.word(frame)).ok()?;
        if slot >= MAX_SLOTS {
            return None;
        }
        let entry = self.names + 16 * slot;
        let (address, length) = (self.word(entry).ok()?, self.word(entry + 8).ok()?);
        let mut name = vec![0; length.saturating_sub(1).min(MAX_NAME_BYTES) as usize];
        self.file.read_exact_at(&mut name, address).ok()?;
        String::from_utf8(name).ok()
    }

    fn return_address(&self) -> io::Result<u64> {
        let stack = self.word(self.frame()? + FRAME_BYTES - 8)?;
        self.word(stack)
    }

    fn callers_return_address(&self) -> io::Result<u64> {
        let rbp = self.word(self.frame()? + RBP_OFFSET)?;
        self.word(rbp.wrapping_add(8))
    }
}

/// Returns file and offset of an address in a process, for addr2line(1).
fn address_in_file(pid: u32, address: u64) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let (path, base) = mapped_file(&maps, address)?;
    let name = Path::new(path).file_name()?.to_string_lossy();
    let base = if is_fixed(Path::new(path)) { 0 } else { base };
    Some(format!("{name}+{:#x}", address - base))
}

/// Returns the file that is mapped at an address, and its lowest address (proc_pid_maps(5)).
fn mapped_file(maps: &str, address: u64) -> Option<(&str, u64)> {
    let mapping = |line: &'_ str| {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((
            number(start)?,
            number(end)?,
            rest.find('/')?,
            line.len() - rest.len(),
        ))
    };
    let files = maps.lines().filter_map(|line| {
        let (start, end, slash, skipped) = mapping(line)?;
        Some((start, end, &line[skipped + slash..]))
    });
    let (_, _, path) = files
        .clone()
        .find(|(start, end, _)| (*start..*end).contains(&address))?;
    let first = files.clone().find(|(_, _, other)| *other == path);
    first.map(|(start, _, path)| (path, start))
}

/// True if the addresses in a program file are those in memory.
fn is_fixed(path: &Path) -> bool {
    let mut kind = [0; 2];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut kind, 16));
    read.is_ok() && u16::from_ne_bytes(kind) == ET_EXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555555554000-555555556000 r--p 00000000 fe:00 42                         /opt/my solver\n\
555555556000-555555557000 r-xp 00002000 fe:00 42                         /opt/my solver\n\
7ffff7d00000-7ffff7d01000 rw-p 00000000 00:00 0 \n\
7ffff7dd0000-7ffff7dd1000 r-xp 00000000 fe:00 43                         /lib/libc.so.6\n\
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn addresses_are_found_in_their_files() {
        let path = "/opt/my solver";
        assert_eq!(
            mapped_file(MAPS, 0x5555_5555_6010),
            Some((path, 0x5555_5555_4000))
        );
        assert_eq!(mapped_file(MAPS, 0x7fff_f7d0_0010), None);
        assert_eq!(mapped_file(MAPS, 0x7fff_ffff_0000), None);
        assert_eq!(mapped_file(MAPS, 1), None);
    }

    #[test]
    fn this_process_is_sampled() {
        let own = SampledProcess {
            pid: std::process::id(),
            memory: None,
        };
        let sample = own.sample().expect("a living process");
        assert_eq!((sample.state, sample.calls), (ProcessState::Other, None));
        assert!(sample.bytes > 0);
        let here = addresses_are_found_in_their_files as fn() as usize as u64;
        let place = address_in_file(own.pid, here).expect("a mapped file");
        assert!(place.contains("+0x"), "{place}");
    }
}
