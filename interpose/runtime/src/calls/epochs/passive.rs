//! Passive target epochs (MPI 4.1, 12.5.3 and 12.5.4).
//!
//! Locks and flushes are the library's, or the runtime's if members share memory.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::epoch_ends::{NO_WORD, check, noted, or_end, own};
use crate::arch::{self, Rewound};
use crate::attention::{self, SEVERAL};
use crate::calls::arguments::outcome;
use crate::calls::runtime;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtWin, real_win};
use crate::objects::window::{self, Epochs, Flush, Hold, LOCK_SHARED, passive, recent};
use crate::raise::finish_win;
use crate::{Runtime, recovery};
use crate::{attempt, cut, exposure};
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Time for which a wait for a lock polls without a pause.
///
/// Later polls are separated by `PAUSE`.
const QUICK: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_micros(50);
/// Time for which requests for a shared lock yield to one for an exclusive lock.
const COURTESY: Duration = Duration::from_millis(10);

/// Lets the library make progress with messages.
fn get_on(rt: &Runtime, win: VirtWin) -> Result<(), Rewound> {
    fence(Ordering::SeqCst);
    arch::will_return();
    recovery::check_own(rt, exposure::hear(rt, win), NO_WORD).map(drop)
}

/// Waits until a lock has been taken.
///
/// A cut may be taken meanwhile. If the program is rolled back to this cut, the call starts from
/// its entry.
fn wait(rt: &Runtime, win: VirtWin, take: impl Fn(bool) -> bool) -> Result<(), Rewound> {
    if take(false) {
        return Ok(());
    }
    let began = Instant::now();
    loop {
        get_on(rt, win)?;
        // A call that yields to other threads starts from its entry, and loses the time that it has
        // waited.
        let waited = began.elapsed();
        if take(waited > COURTESY || attention::is(SEVERAL)) {
            return Ok(());
        }
        if waited > QUICK {
            std::thread::sleep(PAUSE);
        } else {
            std::thread::yield_now();
        }
        cut::meanwhile(rt)?;
    }
}

/// Completes a procedure that has taken a lock.
///
/// After fences, only the library can check whether the lock is allowed. If not, the lock is
/// released.
fn taken(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    give_back: impl FnOnce(&mut Epochs),
) -> c_int {
    if !window::get(rt, win).is_some_and(|window| window.epochs.is_fenced) {
        return SUCCESS;
    }
    let rc = attempt!(rt, passive::tell(rt, win));
    if rc != SUCCESS {
        window::change_epochs(rt, win, give_back);
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
    if !attention::is_on() && recent::lock(rt, win, rank, lock_type, assert) {
        return SUCCESS;
    }
    lock_any(rt, win, rank, lock_type, assert)
}

/// Implements [`MPI_Win_lock`] for any window.
#[inline(never)]
fn lock_any(rt: &Runtime, win: VirtWin, rank: c_int, lock_type: c_int, assert: c_int) -> c_int {
    let procedure = Proc::MPI_Win_lock;
    outcome!(cut::here(rt));
    let lock = |epochs: &mut Epochs| {
        // A lock of MPI_PROC_NULL is not recorded.
        if rank >= 0 {
            epochs.locks.insert(rank, (lock_type, assert));
        }
    };
    let own = or_end!(rt, procedure, win, own(rt, win)).filter(|own| own.members().contains(&rank));
    let Some((own, hold)) = own.zip(Hold::of(lock_type, assert)) else {
        or_end!(
            rt,
            procedure,
            win,
            check(rt, win, |epochs| epochs.targets.is_none())
        );
        outcome!(cut::hold(rt));
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_lock(lock_type, rank, assert, real_win(rt, win))
        });
        return noted(rt, procedure, rc, win, lock);
    };
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.may_lock(rank))
    );
    outcome!(wait(rt, win, |has_waited| own.take(rank, hold, has_waited)));
    window::change_epochs(rt, win, lock);
    taken(rt, procedure, win, |epochs| {
        epochs.locks.remove(rank);
        own.give_back(rank, hold);
    })
}

pub unsafe extern "C" fn MPI_Win_unlock(rank: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    if !attention::is_on() && recent::unlock(rt, win, rank) {
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
    let own = or_end!(rt, procedure, win, own(rt, win));
    let own = own.zip(window::get(rt, win).and_then(|window| window.epochs.held(rank)));
    if own
        .as_ref()
        .is_none_or(|(own, _)| own.told().ranks.remove(&rank))
    {
        arch::will_return();
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
    if let Some((own, hold)) = own {
        own.give_back(rank, hold);
        outcome!(get_on(rt, win));
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_lock_all(assert: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_lock_all;
    outcome!(cut::here(rt));
    let lock = |epochs: &mut Epochs| epochs.all = Some(assert);
    let own = or_end!(rt, procedure, win, own(rt, win));
    let Some((own, hold)) = own.zip(Hold::of(LOCK_SHARED, assert)) else {
        or_end!(
            rt,
            procedure,
            win,
            check(rt, win, |epochs| epochs.targets.is_none())
        );
        outcome!(cut::hold(rt));
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_lock_all(assert, real_win(rt, win))
        });
        return noted(rt, procedure, rc, win, lock);
    };
    or_end!(rt, procedure, win, check(rt, win, Epochs::may_begin));
    outcome!(wait(rt, win, |has_waited| own.take_all(hold, has_waited)));
    window::change_epochs(rt, win, lock);
    taken(rt, procedure, win, |epochs| {
        epochs.all = None;
        own.give_back_all(hold);
    })
}

pub unsafe extern "C" fn MPI_Win_unlock_all(win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_unlock_all;
    outcome!(cut::here(rt));
    let own = or_end!(rt, procedure, win, own(rt, win));
    let own = own.zip(window::get(rt, win).and_then(|window| window.epochs.held_of_all()));
    if own
        .as_ref()
        .is_none_or(|(own, _)| std::mem::take(&mut own.told().all))
    {
        arch::will_return();
        // SAFETY: the real library checks its arguments.
        let rc = attempt!(rt, unsafe { real::PMPI_Win_unlock_all(real_win(rt, win)) });
        if rc != SUCCESS {
            return finish_win(rt, procedure, rc, win);
        }
    }
    window::change_epochs(rt, win, |epochs| epochs.all = None);
    if let Some((own, hold)) = own {
        own.give_back_all(hold);
        outcome!(get_on(rt, win));
    }
    SUCCESS
}

macro_rules! flushes {
    ($($name:ident, $real:ident $(, $rank:ident)?;)*) => {$(
        pub unsafe extern "C" fn $name($($rank: c_int,)? win: VirtWin) -> c_int {
            let rt = runtime();
            outcome!(cut::here(rt));
            let rank: Option<c_int> = None $(.or(Some($rank)))?;
            match recent::flush(rt, win, rank) {
                Flush::Nothing => {
                    fence(Ordering::SeqCst);
                    return SUCCESS;
                }
                Flush::Progress => {
                    outcome!(get_on(rt, win));
                    return SUCCESS;
                }
                Flush::Library => {}
            }
            arch::will_return();
            // SAFETY: the real library checks its arguments.
            let flush = || unsafe { real::$real($($rank,)? real_win(rt, win)) };
            let rc = attempt!(rt, passive::told(rt, win, flush));
            if Proc::$name == Proc::MPI_Win_flush_all && rc == SUCCESS {
                passive::end(rt, win);
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
    let rc = attempt!(rt, passive::told(rt, win, sync));
    finish_win(rt, Proc::MPI_Win_sync, rc, win)
}
