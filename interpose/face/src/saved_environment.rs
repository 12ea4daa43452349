//! Environment of a process in a memfd, for the second execution of the process.
#![allow(unsafe_code)]

use crate::environ::{measure, strings};
use crate::sys::{self, nr, sys};
use core::ffi::c_char;
use understudy_abi::RUNTIME_FD_BASE;

/// First bytes of a saved environment.
const MAGIC: u64 = u64::from_le_bytes(*b"ustdyenv");

/// Writes the environment to a memfd that survives execve(2); returns the descriptor.
///
/// # Safety
/// `list` must be a null-terminated array of strings.
pub unsafe fn save(list: *const *const c_char, personality: usize) -> Result<i32, i32> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings; the system
    // calls concern a new descriptor.
    unsafe {
        let low = sys!(nr::MEMFD_CREATE, c"understudy-environment".as_ptr(), 0);
        if low < 0 {
            return Err(-low as i32);
        }
        const F_DUPFD: usize = 0;
        let fd = sys!(nr::FCNTL, low, F_DUPFD, RUNTIME_FD_BASE);
        sys!(nr::CLOSE, low);
        if fd < 0 {
            return Err(-fd as i32);
        }
        let (count, bytes) = measure(list);
        let header = [MAGIC, personality as u64, count as u64, bytes as u64];
        let mut written = sys!(nr::WRITE, fd, header.as_ptr(), size_of_val(&header));
        for entry in strings(list) {
            written += sys!(nr::WRITE, fd, entry.as_ptr(), entry.len() + 1);
        }
        if written as usize != size_of_val(&header) + bytes {
            const ENOSPC: i32 = 28;
            Err(ENOSPC)
        } else {
            Ok(fd as i32)
        }
    }
}

/// Environment and personality(2) that [`save`] has stored.
pub struct SavedEnvironment {
    /// Null-terminated array of strings, in memory of its own.
    pub list: *const *const c_char,
    /// The process's personality(2) before it was executed again.
    pub personality: usize,
}

/// Reads the environment from the memfd into new memory at `address`, and closes the memfd.
pub fn restore(fd: i32, address: usize) -> Option<SavedEnvironment> {
    let mut header = [0u64; 4];
    // SAFETY: reads into buffers of the given lengths. The memfd was written by `save`, so it
    // contains `count` strings, which have `bytes` bytes in total.
    unsafe {
        let length = sys!(
            nr::PREAD64,
            fd,
            header.as_mut_ptr(),
            size_of_val(&header),
            0
        );
        let [magic, personality, count, bytes] = header;
        if length as usize != size_of_val(&header) || magic != MAGIC {
            return None;
        }
        let (count, bytes) = (count as usize, bytes as usize);
        let pointers =
            sys::map_anonymous(address, (count + 1) * 8 + bytes, 0).ok()? as *mut *const c_char;
        let text = pointers.add(count + 1).cast::<u8>();
        if sys!(nr::PREAD64, fd, text, bytes, size_of_val(&header)) as usize != bytes {
            return None;
        }
        sys!(nr::CLOSE, fd);
        let mut string = text;
        for index in 0..count {
            pointers.add(index).write(string.cast());
            string = string.add(sys::bytes(string.cast()).len() + 1);
        }
        Some(SavedEnvironment {
            list: pointers,
            personality: personality as usize,
        })
    }
}
