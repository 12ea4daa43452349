//! Passive target epochs of windows whose memory all members share.
//!
//! Their locks are the layer's ([`super::locks`]). The library takes one, too, before it does
//! something itself: unchecked, since whom that would exclude is excluded already.
#![allow(unsafe_code)]

use super::direct::Direct;
use super::direct_windows::{self, direct};
use super::epochs::{Epochs, LOCK_SHARED, NO_CHECK};
use super::recent;
use super::window_entries::get;
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles::{VirtWin, real_win};
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use understudy_mpi::real_types::RealWin;

/// How a window with locks of the layer's is reached.
///
/// # Errors
/// If the file of its locks cannot be mapped.
pub fn own(rt: &Runtime, win: VirtWin) -> io::Result<Option<Rc<Direct>>> {
    if let Some(direct) = recent::direct_of(rt, win) {
        return Ok(direct.has_locks().then_some(direct));
    }
    Ok(direct(rt, win)?.filter(|direct| direct.has_locks()))
}

/// The library is to do something on a window: it hears of the locks that this process holds there.
/// Its return code.
pub fn tell(rt: &Runtime, win: VirtWin) -> c_int {
    let (Ok(Some(own)), Some(window)) = (own(rt, win), get(rt, win)) else {
        return SUCCESS;
    };
    let (Epochs { all, locks, .. }, mut told, real) =
        (&window.epochs, own.told(), real_win(rt, win));
    // SAFETY: a window of ours.
    unsafe {
        if all.is_some() && !told.all {
            match real::PMPI_Win_lock_all(NO_CHECK, real) {
                SUCCESS => told.all = true,
                rc => return rc,
            }
        }
        for rank in locks.ranks() {
            if told.ranks.contains(&rank) {
                continue;
            }
            match real::PMPI_Win_lock(LOCK_SHARED, rank, NO_CHECK, real) {
                SUCCESS => told.ranks.insert(rank),
                rc => return rc,
            };
        }
    }
    SUCCESS
}

/// What a procedure of the library's returns that is to know of them.
pub fn told(rt: &Runtime, win: VirtWin, procedure: impl FnOnce() -> c_int) -> c_int {
    match tell(rt, win) {
        SUCCESS => procedure(),
        rc => rc,
    }
}

/// [`told`], of a procedure that begins what may not end at once.
pub fn begun(rt: &Runtime, win: VirtWin, procedure: impl FnOnce(RealWin) -> c_int) -> c_int {
    direct_windows::set_busy(rt, win, true);
    told(rt, win, || procedure(real_win(rt, win)))
}

/// What the library had begun on a window has ended.
pub fn end(rt: &Runtime, win: VirtWin) {
    direct_windows::set_busy(rt, win, false);
}
