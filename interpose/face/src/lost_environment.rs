//! Ranks whose program has lost the launcher's environment.
//!
//! The environment is restored if a rank executes a program through libc ([`crate::exec`]). The
//! environment is lost if the system call is made directly, or by a static wrapper that clears the
//! environment. Each process would then be a job of its own, with one rank.
#![allow(unsafe_code)]

use crate::bypass;
use crate::environ::{self, MANAGER};
use crate::link::{Path, own_path};
use crate::messages::Line;
use crate::processes::is_launched;
use crate::sys::{self, nr, sys};
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use understudy_catalogue::message;

/// Variables that launchers set in the first process of a node ([`crate::launched`]).
const FIRST_OF_NODE: [&[u8]; 3] = [
    b"OMPI_COMM_WORLD_LOCAL_RANK=0",
    b"MPI_LOCALRANKID=0",
    b"SLURM_LOCALID=0",
];

/// Variable of a rank that the rank's program sees.
const RANK: &[u8] = b"OMPI_COMM_WORLD_RANK=";

/// Ends this process if it is a rank that has lost the launcher's environment.
///
/// The parent of such a rank is a guardian, or a wrapper with the launcher's environment.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn refuse(list: *const *const c_char) {
    // SAFETY: getppid(2); the caller guarantees that `list` is a valid environment.
    unsafe {
        if environ::value(list, MANAGER).is_some() {
            return;
        }
        let parent = sys!(nr::GETPPID);
        // A rank of MPI removes the variable from the environment of its children, which are not
        // ranks.
        let is_of_wrapper = || environ::value(list, RANK).is_some() && is_launched(parent, MANAGER);
        let is_rank = || is_guardian(parent) || is_of_wrapper();
        if !is_rank() {
            return;
        }
        bypass::exit_refused_process(
            FIRST_OF_NODE.iter().any(|first| is_launched(parent, first)),
            &message::RANK_ENVIRONMENT_LOST,
        )
    }
}

/// Returns true if a process executes the `ckptd` that belongs to this library.
pub fn is_guardian(process: isize) -> bool {
    let mut ckptd = Path::new();
    ckptd.push(Path::directory(own_path())).push(b"/ckptd");
    let mut link = Line::new();
    let _ = write!(link, "/proc/{process}/exe\0");
    let link = CStr::from_bytes_until_nul(link.as_bytes()).unwrap_or_default();
    let file = sys::file_id(ckptd.as_c_str());
    file.is_some() && sys::file_id(link) == file
}
