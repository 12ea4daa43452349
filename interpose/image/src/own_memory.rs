//! Memory of the program: reading what may not be mapped, writing what may be protected.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// A file that writes to addresses of this process, whatever may be done with its private pages
/// (proc_pid_mem(5)).
pub fn writable() -> io::Result<File> {
    File::options().write(true).open("/proc/self/mem")
}

/// Reads from an address of this process; false if not all of it is mapped.
pub fn read(address: u64, into: &mut [u8]) -> bool {
    let length = into.len();
    let part = |base: *mut u8| libc::iovec {
        iov_base: base.cast(),
        iov_len: length,
    };
    let (to, from) = (part(into.as_mut_ptr()), part(address as *mut u8));
    // SAFETY: process_vm_readv(2) of this process, which stops where nothing is mapped.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    count == length as isize
}
