//! Reading memory of the program that may not be mapped.
#![allow(unsafe_code)]

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
