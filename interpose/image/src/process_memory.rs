//! Access to memory of the program that may be unmapped or protected.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// Opens `/proc/self/mem`, which can write to private pages despite their access rights.
///
/// Source: proc_pid_mem(5).
pub fn open_memory_for_writing() -> io::Result<File> {
    File::options().write(true).open("/proc/self/mem")
}

/// Reads from an address of this process; returns false if a part is not mapped.
pub fn read_own_memory(address: u64, into: &mut [u8]) -> bool {
    let length = into.len();
    let iovec = |base: *mut u8| libc::iovec {
        iov_base: base.cast(),
        iov_len: length,
    };
    let (to, from) = (iovec(into.as_mut_ptr()), iovec(address as *mut u8));
    // SAFETY: process_vm_readv(2) on this process stops with an error at unmapped addresses.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    count == length as isize
}
