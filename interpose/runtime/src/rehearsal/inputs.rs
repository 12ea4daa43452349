//! Files that were open at the end of `MPI_Init`: each replay reads them from where they stood.
#![allow(unsafe_code)]

use crate::cell::Main;
use std::ffi::{CString, c_int};
use understudy_abi::RUNTIME_FD_BASE;

/// A regular file, under a descriptor of the program.
struct Input {
    descriptor: c_int,
    flags: c_int,
    offset: i64,
}

static INPUTS: Main<Vec<Input>> = Main::new(Vec::new());

/// This process stands at the end of `MPI_Init`.
pub fn note() {
    let _held = crate::shim::hold_descriptors();
    *INPUTS.get() = (0..RUNTIME_FD_BASE).filter_map(look).collect();
}

fn look(descriptor: c_int) -> Option<Input> {
    // SAFETY: plain system calls, which fail for what is not open or has no position.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        let mut stat: libc::stat = std::mem::zeroed();
        if flags < 0 || libc::fstat(descriptor, &mut stat) != 0 || stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return None;
        }
        let offset = libc::lseek(descriptor, 0, libc::SEEK_CUR);
        (offset >= 0).then_some(Input {
            descriptor,
            flags,
            offset,
        })
    }
}

/// In a child: the files are at their old positions, and nobody else's position changes with them.
pub fn restore() {
    for input in INPUTS.get().iter() {
        let Ok(path) = CString::new(format!("/proc/self/fd/{}", input.descriptor)) else {
            continue;
        };
        // SAFETY: plain system calls on descriptors of this child.
        unsafe {
            let own = libc::open(
                path.as_ptr(),
                input.flags & !(libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL),
            );
            if own >= 0 {
                let is_closed = libc::fcntl(input.descriptor, libc::F_GETFD) & libc::FD_CLOEXEC != 0;
                libc::dup3(own, input.descriptor, if is_closed { libc::O_CLOEXEC } else { 0 });
                libc::close(own);
            }
            libc::lseek(input.descriptor, input.offset, libc::SEEK_SET);
        }
    }
}
