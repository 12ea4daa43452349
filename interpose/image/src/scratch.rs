//! Private anonymous pages for the self-tests of write tracking.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::pages::AddrRange;
use std::io;

/// Pages for the self-test.
pub(super) struct Scratch(AddrRange);

impl Scratch {
    pub(super) fn map(pages: u64) -> io::Result<Self> {
        let bytes = pages as usize * PAGE_SIZE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: creates a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rw, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(AddrRange::new(at as u64, at as u64 + bytes as u64)))
    }

    pub(super) fn range(&self) -> AddrRange {
        self.0
    }

    pub(super) fn drop_all(&self) -> io::Result<()> {
        // SAFETY: pages of the mapping created above, whose content is not needed.
        let rc = unsafe {
            libc::madvise(
                self.0.start as *mut libc::c_void,
                self.0.len() as usize,
                libc::MADV_DONTNEED,
            )
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn write(&self, page: usize) {
        let at = (self.0.start as *mut u8).wrapping_add(page * PAGE_SIZE);
        // SAFETY: the callers pass a page of the mapping created above, which only they use.
        unsafe { at.write_volatile(1) };
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `map`, which no other code uses.
        unsafe { libc::munmap(self.0.start as *mut libc::c_void, self.0.len() as usize) };
    }
}
