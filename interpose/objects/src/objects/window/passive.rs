//! Passive target epochs of windows whose memory all members share.
//!
//! The runtime implements their locks (`super::locks`). Before the library performs an operation,
//! a lock is taken in the library as well, with `MPI_MODE_NOCHECK`: conflicting locks are excluded
//! already.
#![allow(unsafe_code)]

use super::direct::DirectWindow;
use super::direct_windows::{self, direct};
use super::epochs::{Epochs, LOCK_SHARED, NO_CHECK};
use super::recent_access;
use super::window_entries::get;
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{VirtWin, real_win};
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use understudy_mpi::real_types::RealWin;

/// Returns a window whose locks are the runtime's; `None` for all other windows.
///
/// # Errors
/// Fails if the file of the window's locks cannot be mapped.
pub fn with_own_locks(rt: &Runtime, win: VirtWin) -> io::Result<Option<Rc<DirectWindow>>> {
    if let Some(direct) = recent_access::cached_window(rt, win) {
        return Ok(direct.has_locks().then_some(direct));
    }
    Ok(direct(rt, win)?.filter(|direct| direct.has_locks()))
}

/// Opens epochs in the library for the locks that this process holds on a window.
///
/// Does nothing for windows whose locks are the library's. Must be called before the library
/// performs an operation on the window. Returns the library's return code.
pub fn open_in_library(rt: &Runtime, win: VirtWin) -> c_int {
    let (Ok(Some(direct)), Some(window)) = (with_own_locks(rt, win), get(rt, win)) else {
        return SUCCESS;
    };
    let (Epochs { all, locks, .. }, mut in_library, real) =
        (&window.epochs, direct.library_epochs(), real_win(rt, win));
    // SAFETY: a window of the runtime. The runtime's locks, which this process holds, exclude
    // conflicting locks, as `MPI_MODE_NOCHECK` requires.
    unsafe {
        if all.is_some() && !in_library.all {
            match real::PMPI_Win_lock_all(NO_CHECK, real) {
                SUCCESS => in_library.all = true,
                rc => return rc,
            }
        }
        for rank in locks.ranks() {
            if in_library.ranks.contains(&rank) {
                continue;
            }
            match real::PMPI_Win_lock(LOCK_SHARED, rank, NO_CHECK, real) {
                SUCCESS => in_library.ranks.insert(rank),
                rc => return rc,
            };
        }
    }
    SUCCESS
}

/// Calls a procedure of the library that needs the epochs of this window.
///
/// Returns the return code of the procedure, or of the opening of the epochs.
pub fn call_in_epochs(rt: &Runtime, win: VirtWin, procedure: impl FnOnce() -> c_int) -> c_int {
    match open_in_library(rt, win) {
        SUCCESS => procedure(),
        rc => rc,
    }
}

/// Calls a procedure as [`call_in_epochs`] does and marks the window as busy.
///
/// The procedure starts an operation that may stay incomplete.
pub fn start_in_epochs(
    rt: &Runtime,
    win: VirtWin,
    procedure: impl FnOnce(RealWin) -> c_int,
) -> c_int {
    direct_windows::set_busy(rt, win, true);
    call_in_epochs(rt, win, || procedure(real_win(rt, win)))
}

/// Records that all operations of the library on a window are complete.
pub fn mark_complete(rt: &Runtime, win: VirtWin) {
    direct_windows::set_busy(rt, win, false);
}
