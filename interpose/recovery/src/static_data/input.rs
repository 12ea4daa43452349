//! Files that were open at the end of `MPI_Init`.
//!
//! Replays read the files from the positions that the files had at that time.
#![allow(unsafe_code)]

use crate::journal::syscall_filter;
use std::ffi::c_int;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_journal::Runtime;

/// Regular file or directory behind a descriptor of the program.
pub(super) struct OpenInputFile {
    descriptor: c_int,
    flags: c_int,
    offset: i64,
}

/// Returns the files that are open now, at the end of `MPI_Init`.
pub(super) fn open_files() -> Vec<OpenInputFile> {
    let _held = crate::shim::acquire_descriptor_right();
    (0..RUNTIME_FD_BASE)
        .filter_map(input_of_descriptor)
        .collect()
}

fn input_of_descriptor(descriptor: c_int) -> Option<OpenInputFile> {
    // SAFETY: plain system calls, which fail for a descriptor that is not open or has no position.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        let mut stat: libc::stat = std::mem::zeroed();
        if flags < 0 || flags & libc::O_PATH != 0 || libc::fstat(descriptor, &mut stat) != 0 {
            return None;
        }
        if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) {
            return None;
        }
        let offset = libc::lseek(descriptor, 0, libc::SEEK_CUR);
        (offset >= 0).then_some(OpenInputFile {
            descriptor,
            flags,
            offset,
        })
    }
}

/// Restores contents and positions of the files, in a child with a system call filter.
///
/// File positions in other processes do not change.
pub(super) fn restore(rt: &Runtime, inputs: &[OpenInputFile]) -> Result<(), String> {
    let mut inputs = inputs.iter();
    inputs.try_for_each(|input| {
        syscall_filter::replace_open_file(rt, input.descriptor, input.flags, input.offset)
    })
}
