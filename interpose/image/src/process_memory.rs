//! Access to memory of the program that may be unmapped or protected.
#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::pages::AddrRange;
use std::fs::File;
use std::io;

/// Opens `/proc/self/mem`, which can write to private pages despite their access rights.
///
/// Source: proc_pid_mem(5).
pub fn open_memory_for_writing() -> io::Result<File> {
    File::options().write(true).open("/proc/self/mem")
}

fn iovec(base: *const u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast_mut().cast(),
        iov_len: length,
    }
}

/// Reads from an address of this process; returns false if a part is not mapped.
pub fn read_own_memory(address: u64, into: &mut [u8]) -> bool {
    let length = into.len();
    let (to, from) = (
        iovec(into.as_mut_ptr(), length),
        iovec(address as *const u8, length),
    );
    // SAFETY: process_vm_readv(2) on this process stops with an error at unmapped addresses.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    count == length as isize
}

/// Fills memory of this process with a byte.
///
/// Pages that are not mapped or not writable are skipped.
///
/// # Safety
/// The content of all pages that are mapped in the range must not be needed.
pub unsafe fn fill_own_memory(memory: AddrRange, byte: u8) {
    let content = [byte; 16 * PAGE_SIZE];
    let mut at = memory.start;
    while at < memory.end {
        let length = content.len().min((memory.end - at) as usize);
        let (from, to) = (
            iovec(content.as_ptr(), length),
            iovec(at as *const u8, length),
        );
        // SAFETY: process_vm_writev(2) on this process stops at pages that the process cannot
        // write; the content of all other pages is not needed.
        let count = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
        at = match count {
            1.. => at + count as u64,
            _ => (at / PAGE_SIZE as u64 + 1) * PAGE_SIZE as u64,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_can_be_written_are_filled() {
        const PAGES: usize = 40;
        const INACCESSIBLE: usize = 3;
        const READ_ONLY: usize = 20;
        const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
        let length = PAGES * PAGE_SIZE;
        // SAFETY: a new mapping of this test.
        let all = unsafe { libc::mmap(std::ptr::null_mut(), length, WRITABLE, FLAGS, -1, 0) };
        assert_ne!(all, libc::MAP_FAILED);
        for (index, rights) in [
            (INACCESSIBLE, libc::PROT_NONE),
            (READ_ONLY, libc::PROT_READ),
        ] {
            // SAFETY: a page of this test's mapping.
            let rc = unsafe { libc::mprotect(all.add(index * PAGE_SIZE), PAGE_SIZE, rights) };
            assert_eq!(rc, 0);
        }
        let page = |index: usize| all as u64 + (index * PAGE_SIZE) as u64;
        // SAFETY: this test's mapping, and addresses where the kernel maps nothing.
        unsafe {
            fill_own_memory(AddrRange::new(0, 3 * PAGE_SIZE as u64), 0xa5);
            fill_own_memory(AddrRange::new(page(1), page(PAGES - 1)), 0xa5);
        }
        for index in 0..PAGES {
            let mut content = [1; PAGE_SIZE];
            let is_readable = read_own_memory(page(index), &mut content);
            assert_eq!(is_readable, index != INACCESSIBLE, "page {index}");
            let expected = match index {
                0 | READ_ONLY => 0,
                index if index == PAGES - 1 => 0,
                _ => 0xa5,
            };
            assert!(
                !is_readable || content == [expected; PAGE_SIZE],
                "page {index}"
            );
        }
        // SAFETY: this test's mapping.
        unsafe { libc::munmap(all, length) };
    }
}
