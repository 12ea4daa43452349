//! Memory of a process, in which its last MPI call is found.
//!
//! A parent may read and write the memory (ptrace(2), "Ptrace access mode checking"). Every call of
//! the program removes a mark in that memory, which each sample sets again. So calls are noticed
//! although the process does nothing for this purpose.

use framehop::FrameAddress;
use rustix::io::pread;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use understudy_formats::proc_maps::{MappedFile, MappedFiles};
use understudy_protocol::CallSample;
use understudy_wire::line::{CallAddresses, FRAME_BYTES, SharedPage};

/// Bytes of the longest name of a procedure.
const MAX_NAME_BYTES: u64 = 64;
/// Number of names in the table of procedures, and more.
const MAX_SLOTS: u64 = 1 << 16;
/// Distance of the saved rbp from the beginning of a frame.
const RBP_OFFSET: u64 = 88;
/// Distance of the program's stack pointer from the beginning of a frame.
const RSP_OFFSET: u64 = FRAME_BYTES - 8;
/// Type of program files that are mapped at fixed addresses (elf(5)).
const ET_EXEC: u16 = 2;
/// Distance of that type from the beginning of a file.
const TYPE_OFFSET: u64 = 16;

/// Offset of the mark from the state of a call ([`CallAddresses::state`]).
const MARK: u64 = 1;
/// Offset of the byte that is 1 during a call.
const IN_CALL: u64 = 2;

/// Addresses that a process has written to its page ([`CallAddresses`]).
#[derive(Clone, Copy, Default)]
pub struct CallAddressesOfPage {
    state: u64,
    frame_end: u64,
    names: u64,
}

impl CallAddressesOfPage {
    /// Reads a page; `None` until its process has set the addresses.
    pub fn read(page: impl AsFd) -> Option<CallAddressesOfPage> {
        let word = |offset: usize| {
            let mut bytes = [0; 8];
            let offset = (offset_of!(SharedPage, calls) + offset) as u64;
            let read = pread(&page, &mut bytes, offset).ok()?;
            let word = u64::from_ne_bytes(bytes);
            (read == bytes.len() && word != 0).then_some(word)
        };
        Some(CallAddressesOfPage {
            frame_end: word(offset_of!(CallAddresses, frame_end))?,
            names: word(offset_of!(CallAddresses, names))?,
            state: word(offset_of!(CallAddresses, state))?,
        })
    }
}

/// Registers of the program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRegisters {
    pub address: FrameAddress,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
}

/// Memory of a process, with the addresses of its last call.
pub struct ProcessMemory {
    pid: u32,
    /// `/proc/PID/mem`, for the mark and the bytes beside the mark, which every call writes.
    ///
    /// After execve(2) nothing can be read or written through the file (proc_pid_mem(5)), so the
    /// next program of the process keeps its bytes.
    file: File,
    addresses: CallAddressesOfPage,
}

impl ProcessMemory {
    /// # Errors
    /// Errors of open(2): this process must have the right to trace the other one.
    pub fn open(pid: u32, addresses: CallAddressesOfPage) -> io::Result<ProcessMemory> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))?;
        Ok(ProcessMemory {
            pid,
            file,
            addresses,
        })
    }

    /// Reads bytes without a lock that the process needs.
    ///
    /// The bytes may belong to a file on a file system that does not answer. Then only this thread
    /// waits: process_vm_readv(2) lets the kernel release the lock of the process's mappings while
    /// it reads the file (process_vm_rw_single_vec of Linux passes `locked` to
    /// pin_user_pages_remote; maybe_unlock_mmap_for_io, since Linux 5.1). pread(2) of
    /// `/proc/PID/mem` keeps that lock (__access_remote_vm), so that the process waits in its next
    /// mmap(2). With a FUSE file system that does not answer, mmap(2) took less than 1 ms beside
    /// the former and did not return beside the latter (Linux 6.18).
    ///
    /// # Errors
    /// Errors of process_vm_readv(2), for example if nothing is mapped at the address.
    #[allow(unsafe_code)]
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let length = bytes.len();
        let vector = |base: *mut u8| libc::iovec {
            iov_base: base.cast(),
            iov_len: length,
        };
        let (to, from) = (vector(bytes.as_mut_ptr()), vector(address as *mut u8));
        // SAFETY: the kernel writes to `bytes`, and checks the address in the other process.
        let count = unsafe { libc::process_vm_readv(self.pid as i32, &to, 1, &from, 1, 0) };
        match usize::try_from(count) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(count) if count < length => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
        }
    }

    /// # Errors
    /// Errors of [`ProcessMemory::read`].
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Reads the state of the last call, and sets the mark for the next sample.
    ///
    /// # Errors
    /// Errors of pread(2) and pwrite(2).
    pub fn sample(&self) -> io::Result<CallSample> {
        let mut state = [0; 3];
        self.file.read_exact_at(&mut state, self.addresses.state)?;
        let [_, mark, is_in_call] = state;
        if mark == 0 {
            self.file.write_all_at(&[1], self.addresses.state + MARK)?;
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
    pub fn is_in_call(&self) -> bool {
        let mut byte = [0];
        let read = self.read(self.addresses.state + IN_CALL, &mut byte);
        read.is_ok() && byte != [0]
    }

    /// Returns the address of the last call's frame.
    fn frame(&self) -> io::Result<u64> {
        Ok(self
            .word(self.addresses.frame_end)?
            .wrapping_sub(FRAME_BYTES))
    }

    /// Returns the name of the procedure of the current or last call.
    pub fn procedure(&self) -> Option<String> {
        let slot = self.frame().and_then(|frame| self.word(frame)).ok()?;
        if slot >= MAX_SLOTS {
            return None;
        }
        let entry = self.addresses.names + 16 * slot;
        let (address, length) = (self.word(entry).ok()?, self.word(entry + 8).ok()?);
        let mut name = vec![0; length.saturating_sub(1).min(MAX_NAME_BYTES) as usize];
        self.read(address, &mut name).ok()?;
        String::from_utf8(name).ok()
    }

    /// # Errors
    /// Errors of [`ProcessMemory::read`].
    pub fn return_address(&self) -> io::Result<u64> {
        self.word(self.word(self.frame()? + RSP_OFFSET)?)
    }

    /// # Errors
    /// Errors of [`ProcessMemory::read`].
    pub fn callers_return_address(&self) -> io::Result<u64> {
        let rbp = self.word(self.frame()? + RBP_OFFSET)?;
        self.word(rbp.wrapping_add(8))
    }

    /// Returns the registers of the program at its current call; `None` outside of calls.
    pub fn registers_of_call(&self) -> Option<ProgramRegisters> {
        if !self.is_in_call() {
            return None;
        }
        let frame = self.frame().ok()?;
        let stack_pointer = self.word(frame + RSP_OFFSET).ok()?;
        Some(ProgramRegisters {
            address: FrameAddress::from_return_address(self.word(stack_pointer).ok()?)?,
            stack_pointer: stack_pointer.wrapping_add(8),
            frame_pointer: self.word(frame + RBP_OFFSET).ok()?,
        })
    }

    /// Returns file and offset of an address in the process, for addr2line(1).
    pub fn place(&self, files: &MappedFiles, address: u64) -> Option<String> {
        let file = files.at(address)?;
        let name = file.path.file_name()?.to_string_lossy();
        Some(format!(
            "{name}+{:#x}",
            address - self.base_of_addresses(&file)
        ))
    }

    /// Returns the address from which offsets in a file are counted.
    ///
    /// The type of the file is read from memory, because its file system may not answer.
    pub fn base_of_addresses(&self, file: &MappedFile<'_>) -> u64 {
        let mut kind = [0; 2];
        let read = self.read(file.start + TYPE_OFFSET, &mut kind);
        let is_fixed = read.is_ok() && u16::from_ne_bytes(kind) == ET_EXEC;
        if is_fixed { 0 } else { file.start }
    }
}

#[cfg(test)]
impl ProcessMemory {
    /// Opens the memory of a process that has no MPI.
    pub fn without_calls(pid: u32) -> io::Result<ProcessMemory> {
        ProcessMemory::open(pid, CallAddressesOfPage::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_process_has_a_place() {
        let own = std::process::id();
        let memory = ProcessMemory::without_calls(own).expect("own memory");
        let here = a_function_of_this_process_has_a_place as fn() as usize as u64;
        let place = memory.place(&MappedFiles::read(own), here);
        assert!(place.is_some_and(|place| place.contains("+0x")));
    }

    /// Shows which way of the kernel reads: `/proc/PID/mem` ignores access rights.
    #[test]
    #[allow(unsafe_code)]
    fn memory_is_read_in_the_way_that_releases_the_lock_of_the_mappings() {
        const PAGE: usize = 4096;
        let flags = rustix::mm::MapFlags::PRIVATE;
        let none = rustix::mm::ProtFlags::empty();
        // SAFETY: a new mapping, which is unmapped below.
        let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE, none, flags) };
        let page = page.expect("mmap(2)");
        let memory = ProcessMemory::without_calls(std::process::id()).expect("own memory");
        let mut bytes = [0; 8];
        assert!(memory.file.read_exact_at(&mut bytes, page as u64).is_ok());
        let error = memory.read(page as u64, &mut bytes);
        let error = error.expect_err("no access right");
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let own = 7_u64;
        assert_eq!(memory.word(&raw const own as u64).ok(), Some(7));
        // SAFETY: the mapping of this test.
        unsafe { rustix::mm::munmap(page, PAGE) }.expect("munmap(2)");
    }
}
