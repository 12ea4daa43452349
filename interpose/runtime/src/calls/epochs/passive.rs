//! Passive target epochs (MPI 4.1, 12.5.3 and 12.5.4).
//!
//! The runtime implements locks of windows whose memory all members share, and the library those of
//! all other windows.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::epoch_ends::{EXCHANGE_FAILED, check, direct_access, finish_and_record, or_end};
use crate::arch::{self, Rewound};
use crate::calls::arguments::outcome;
use crate::calls::runtime;
use crate::error_handling::finish_win;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtWin, real_win};
use crate::objects::window::{
    self, Epochs, FlushWork, LOCK_SHARED, LockArguments, LockKind, passive, recent_access,
};
use crate::work_flags::{self, MULTIPLE_THREADS};
use crate::{Runtime, recovery};
use crate::{attempt, cut, exposure};
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Time for which a wait for a lock polls without a pause.
const QUICK_POLLING: Duration = Duration::from_millis(1);
/// Pause between later polls.
const PAUSE: Duration = Duration::from_micros(50);
/// Time for which waits for shared locks yield to waits for exclusive locks.
const SHARED_LOCK_DELAY: Duration = Duration::from_millis(10);

/// Orders memory accesses, and lets the library make progress with messages.
fn make_progress(rt: &Runtime, win: VirtWin) -> Result<(), Rewound> {
    fence(Ordering::SeqCst);
    arch::mark_short_wait();
    recovery::check_own(rt, exposure::receive_arrived(rt, win), EXCHANGE_FAILED).map(drop)
}

/// Waits until `take` has taken a lock.
///
/// The argument of `take` is true after a long wait. A cut may be taken meanwhile. If the program
/// is rolled back to this cut, the call starts from its entry.
fn wait(rt: &Runtime, win: VirtWin, take: impl Fn(bool) -> bool) -> Result<(), Rewound> {
    if take(false) {
        return Ok(());
    }
    let began = Instant::now();
    loop {
        make_progress(rt, win)?;
        // With several threads a call may be repeated from its entry, which loses the time that it
        // has waited. It therefore counts as having waited long.
        let waited = began.elapsed();
        if take(waited > SHARED_LOCK_DELAY || work_flags::is_set(MULTIPLE_THREADS)) {
            return Ok(());
        }
        if waited > QUICK_POLLING {
            std::thread::sleep(PAUSE);
        } else {
            std::thread::yield_now();
        }
        cut::meanwhile(rt)?;
    }
}

/// Completes a procedure that has taken a lock.
///
/// After fences, only the library can check whether the lock is allowed. If the lock is not
/// allowed, `undo` releases it.
fn finish_lock(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    undo: impl FnOnce(&mut Epochs),
) -> c_int {
    if !window::get(rt, win).is_some_and(|window| window.epochs.is_fenced) {
        return SUCCESS;
    }
    let rc = attempt!(rt, passive::open_in_library(rt, win));
    if rc != SUCCESS {
        window::change_epochs(rt, win, undo);
    }
    finish_win(rt, procedure, rc, win)
}

pub unsafe extern "C" fn MPI_Win_lock(
    lock_type: c_int,
    rank: c_int,
    assert: c_int,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let arguments = LockArguments { lock_type, assert };
    if !work_flags::is_any_set() && recent_access::lock(rt, win, rank, arguments) {
        return SUCCESS;
    }
    lock_any(rt, win, rank, arguments)
}

/// Implements [`MPI_Win_lock`] for any window.
#[inline(never)]
fn lock_any(rt: &Runtime, win: VirtWin, rank: c_int, arguments: LockArguments) -> c_int {
    let procedure = Proc::MPI_Win_lock;
    let LockArguments { lock_type, assert } = arguments;
    outcome!(cut::here(rt));
    let lock = |epochs: &mut Epochs| {
        // A lock of MPI_PROC_NULL is not recorded.
        if rank >= 0 {
            epochs.locks.insert(rank, arguments);
        }
    };
    let own = or_end!(rt, procedure, win, direct_access(rt, win))
        .filter(|own| own.members().contains(&rank));
    let Some((own, kind)) = own.zip(LockKind::from_arguments(lock_type, assert)) else {
        or_end!(
            rt,
            procedure,
            win,
            check(rt, win, |epochs| epochs.targets.is_none())
        );
        outcome!(cut::enter_waiting_call(rt));
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_lock(lock_type, rank, assert, real_win(rt, win))
        });
        return finish_and_record(rt, procedure, rc, win, lock);
    };
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.may_lock(rank))
    );
    outcome!(wait(rt, win, |has_waited| own.take(rank, kind, has_waited)));
    window::change_epochs(rt, win, lock);
    finish_lock(rt, procedure, win, |epochs| {
        epochs.locks.remove(rank);
        own.release(rank, kind);
    })
}

pub unsafe extern "C" fn MPI_Win_unlock(rank: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    if !work_flags::is_any_set() && recent_access::unlock(rt, win, rank) {
        return SUCCESS;
    }
    unlock_any(rt, win, rank)
}

/// Implements [`MPI_Win_unlock`] for any window.
#[inline(never)]
fn unlock_any(rt: &Runtime, win: VirtWin, rank: c_int) -> c_int {
    let procedure = Proc::MPI_Win_unlock;
    outcome!(cut::here(rt));
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.targets.is_none())
    );
    let own = or_end!(rt, procedure, win, direct_access(rt, win));
    let own = own.zip(window::get(rt, win).and_then(|window| window.epochs.lock_kind(rank)));
    if own
        .as_ref()
        .is_none_or(|(own, _)| own.library_epochs().ranks.remove(&rank))
    {
        arch::mark_short_wait();
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_unlock(rank, real_win(rt, win))
        });
        if rc != SUCCESS {
            return finish_win(rt, procedure, rc, win);
        }
    }
    window::change_epochs(rt, win, |epochs| {
        epochs.locks.remove(rank);
    });
    if let Some((own, kind)) = own {
        own.release(rank, kind);
        outcome!(make_progress(rt, win));
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_lock_all(assert: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_lock_all;
    outcome!(cut::here(rt));
    let lock = |epochs: &mut Epochs| epochs.all = Some(assert);
    let own = or_end!(rt, procedure, win, direct_access(rt, win));
    let Some((own, kind)) = own.zip(LockKind::from_arguments(LOCK_SHARED, assert)) else {
        or_end!(
            rt,
            procedure,
            win,
            check(rt, win, |epochs| epochs.targets.is_none())
        );
        outcome!(cut::enter_waiting_call(rt));
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_lock_all(assert, real_win(rt, win))
        });
        return finish_and_record(rt, procedure, rc, win, lock);
    };
    or_end!(rt, procedure, win, check(rt, win, Epochs::may_begin));
    outcome!(wait(rt, win, |has_waited| own.take_all(kind, has_waited)));
    window::change_epochs(rt, win, lock);
    finish_lock(rt, procedure, win, |epochs| {
        epochs.all = None;
        own.release_all(kind);
    })
}

pub unsafe extern "C" fn MPI_Win_unlock_all(win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_unlock_all;
    outcome!(cut::here(rt));
    let own = or_end!(rt, procedure, win, direct_access(rt, win));
    let own = own.zip(window::get(rt, win).and_then(|window| window.epochs.lock_all_kind()));
    if own
        .as_ref()
        .is_none_or(|(own, _)| std::mem::take(&mut own.library_epochs().all))
    {
        arch::mark_short_wait();
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe { real::PMPI_Win_unlock_all(real_win(rt, win)) });
        if rc != SUCCESS {
            return finish_win(rt, procedure, rc, win);
        }
    }
    window::change_epochs(rt, win, |epochs| epochs.all = None);
    if let Some((own, kind)) = own {
        own.release_all(kind);
        outcome!(make_progress(rt, win));
    }
    SUCCESS
}

macro_rules! flushes {
    ($($name:ident, $real:ident $(, $rank:ident)?;)*) => {$(
        pub unsafe extern "C" fn $name($($rank: c_int,)? win: VirtWin) -> c_int {
            let rt = runtime();
            outcome!(cut::here(rt));
            let rank: Option<c_int> = None $(.or(Some($rank)))?;
            match recent_access::flush(rt, win, rank) {
                FlushWork::Nothing => {
                    fence(Ordering::SeqCst);
                    return SUCCESS;
                }
                FlushWork::Progress => {
                    outcome!(make_progress(rt, win));
                    return SUCCESS;
                }
                FlushWork::Library => {}
            }
            arch::mark_short_wait();
            // SAFETY: the real library checks its arguments.
            let flush = || unsafe { real::$real($($rank,)? real_win(rt, win)) };
            let rc = attempt!(rt, passive::call_in_epochs(rt, win, flush));
            if Proc::$name == Proc::MPI_Win_flush_all && rc == SUCCESS {
                passive::mark_complete(rt, win);
            }
            finish_win(rt, Proc::$name, rc, win)
        }
    )*};
}

flushes! {
    MPI_Win_flush, PMPI_Win_flush, rank;
    MPI_Win_flush_all, PMPI_Win_flush_all;
    MPI_Win_flush_local, PMPI_Win_flush_local, rank;
    MPI_Win_flush_local_all, PMPI_Win_flush_local_all;
}

pub unsafe extern "C" fn MPI_Win_sync(win: VirtWin) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    // SAFETY: the real library checks its arguments.
    let sync = || unsafe { real::PMPI_Win_sync(real_win(rt, win)) };
    let rc = attempt!(rt, passive::call_in_epochs(rt, win, sync));
    finish_win(rt, Proc::MPI_Win_sync, rc, win)
}
