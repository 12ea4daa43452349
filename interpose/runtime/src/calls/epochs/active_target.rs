//! Active target epochs (MPI 4.1, 12.5.1 and 12.5.2): fence, post, start, complete and wait.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::epoch_ends::{EXCHANGE_FAILED, check, direct_access, finish_and_record, or_end};
use crate::arch::{self, Rewound};
use crate::calls::arguments::outcome;
use crate::calls::runtime;
use crate::error_handling::finish_win;
use crate::errors::{ERR_ARG, ERR_WIN, SUCCESS};
use crate::exposure::{self, SyncMessage};
use crate::generated::{Proc, real};
use crate::handles::{VirtGroup, VirtWin, real_group, real_win};
use crate::objects::comm;
use crate::objects::group::{self, ERR_GROUP};
use crate::objects::window::{self, Epochs, LOCK_SHARED, LockArguments, NO_CHECK};
use crate::{Runtime, recovery};
use crate::{attempt, cut, work_flags};
use std::ffi::c_int;
use understudy_mpi::real_types::{RealGroup, RealWin};

/// `MPI_MODE_NOSUCCEED` of Open MPI.
const NO_SUCCEED: c_int = 16;

/// `MPI_Win_fence`: a cut point, as a collective over the window's communicator is.
pub unsafe extern "C" fn MPI_Win_fence(assert: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_fence;
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| !epochs.is_general())
    );
    let comm = window::comm_of(rt, win);
    if let Some(comm) = comm {
        outcome!(cut::collective(rt, comm));
    }
    // SAFETY: the real library checks its arguments.
    let fence = || unsafe { real::PMPI_Win_fence(assert, real_win(rt, win)) };
    let rc = attempt!(rt, window::passive::call_in_epochs(rt, win, fence));
    if let (Some(comm), true) = (comm, rc != SUCCESS) {
        cut::withdraw(rt, comm, rc);
    }
    finish_and_record(rt, procedure, rc, win, |epochs| {
        epochs.is_fenced = assert & NO_SUCCEED == 0
    })
}

/// Returns the ranks of a group's members in the window's group.
fn ranks_of(rt: &Runtime, win: VirtWin, members: VirtGroup) -> Result<Vec<i32>, c_int> {
    let wanted = group::members(rt, members).ok_or(ERR_GROUP)?;
    let comm = window::comm_of(rt, win).ok_or(ERR_WIN)?;
    let rank = |worker| comm::rank_of(rt, comm, worker).ok_or(ERR_GROUP);
    wanted.into_iter().map(rank).collect()
}

/// Calls a procedure of the library with a group of members of a window.
///
/// Used for windows with spawned processes.
fn call_with_group(
    rt: &Runtime,
    win: VirtWin,
    members: VirtGroup,
    procedure: impl FnOnce(RealGroup, RealWin) -> c_int,
) -> Result<c_int, c_int> {
    let (ranks, real) = (ranks_of(rt, win, members)?, real_win(rt, win));
    let (mut all, mut selected) = (
        real_group(rt, group::null_handle(rt)),
        real_group(rt, group::null_handle(rt)),
    );
    // SAFETY: a window of the runtime, ranks in its group, and groups of the runtime.
    unsafe {
        let mut rc = real::PMPI_Win_get_group(real, &mut all);
        if rc == SUCCESS {
            rc = real::PMPI_Group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut selected);
            real::PMPI_Group_free(&mut all);
        }
        if rc == SUCCESS {
            rc = procedure(selected, real);
            real::PMPI_Group_free(&mut selected);
        }
        Ok(rc)
    }
}

/// Calls the library's post, start, complete, wait or test for a window with spawned processes.
///
/// The handler then returns the library's return code. The procedure may wait until other processes
/// call MPI, so no cut can be taken meanwhile.
macro_rules! unless_spawned {
    ($rt:expr, $procedure:expr, $win:expr, $library:expr) => {
        if window::has_spawned($rt, $win) {
            outcome!(cut::enter_waiting_call($rt));
            arch::mark_blocking_wait();
            let rc: Result<c_int, c_int> = $library(real_win($rt, $win));
            let rc = attempt!($rt, rc.unwrap_or_else(|rc| rc));
            return finish_win($rt, $procedure, rc, $win);
        }
    };
}

/// Waits for the next control message of a window.
///
/// Polls only once, and lets a cut be taken, if work flags are set.
fn wait_for_message(rt: &Runtime, win: VirtWin) -> Result<(), Rewound> {
    if work_flags::is_any_set() {
        recovery::check_own(rt, exposure::receive_arrived(rt, win), EXCHANGE_FAILED)?;
        cut::meanwhile(rt)
    } else {
        recovery::check_own(rt, exposure::receive_next(rt, win), EXCHANGE_FAILED)
    }
}

pub unsafe extern "C" fn MPI_Win_start(group: VirtGroup, assert: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_start;
    let library = |group: RealGroup, real: RealWin| {
        // SAFETY: the real library checks its arguments.
        unsafe { real::PMPI_Win_start(group, assert, real) }
    };
    unless_spawned!(rt, procedure, win, |_| call_with_group(
        rt, win, group, library
    ));
    or_end!(rt, procedure, win, check(rt, win, Epochs::may_begin));
    let targets = or_end!(rt, procedure, win, ranks_of(rt, win, group));
    outcome!(cut::here(rt));
    while !exposure::consume_messages(rt, win, &targets, SyncMessage::Exposed) {
        outcome!(wait_for_message(rt, win));
    }
    let own = or_end!(rt, procedure, win, direct_access(rt, win));
    for &target in targets.iter().filter(|_| own.is_none()) {
        // No process may lock an exposed window, so the lock is granted at once.
        // SAFETY: a window of the runtime and a rank in its group.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_lock(LOCK_SHARED, target, NO_CHECK, real_win(rt, win))
        });
        if rc != SUCCESS {
            return finish_win(rt, procedure, rc, win);
        }
    }
    window::change_epochs(rt, win, |epochs| {
        for &target in &targets {
            let arguments = LockArguments {
                lock_type: LOCK_SHARED,
                assert: NO_CHECK,
            };
            epochs.locks.insert(target, arguments);
        }
        epochs.targets = Some(targets);
    });
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_complete(win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_complete;
    // SAFETY: the real library checks its arguments.
    unless_spawned!(rt, procedure, win, |real| Ok(unsafe {
        real::PMPI_Win_complete(real)
    }));
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.targets.is_some())
    );
    outcome!(cut::here(rt));
    let targets = window::get(rt, win).and_then(|window| window.epochs.targets.clone());
    let targets = targets.unwrap_or_default();
    let own = or_end!(rt, procedure, win, direct_access(rt, win));
    let was_open_in_library = |&&target: &&i32| {
        own.as_ref()
            .is_none_or(|own| own.library_epochs().ranks.remove(&target))
    };
    for &target in targets.iter().filter(was_open_in_library) {
        arch::mark_short_wait();
        // SAFETY: a window of the runtime, and a rank that `MPI_Win_start` has locked.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Win_unlock(target, real_win(rt, win))
        });
        if rc != SUCCESS {
            return finish_win(rt, procedure, rc, win);
        }
    }
    outcome!(recovery::check_own(
        rt,
        exposure::send(rt, win, &targets, SyncMessage::Done),
        EXCHANGE_FAILED
    ));
    window::change_epochs(rt, win, |epochs| {
        epochs.targets = None;
        epochs.locks.clear();
    });
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_post(group: VirtGroup, assert: c_int, win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_post;
    let library = |group: RealGroup, real: RealWin| {
        // SAFETY: the real library checks its arguments.
        unsafe { real::PMPI_Win_post(group, assert, real) }
    };
    unless_spawned!(rt, procedure, win, |_| call_with_group(
        rt, win, group, library
    ));
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.origins.is_none())
    );
    let origins = or_end!(rt, procedure, win, ranks_of(rt, win, group));
    outcome!(cut::here(rt));
    outcome!(recovery::check_own(
        rt,
        exposure::send(rt, win, &origins, SyncMessage::Exposed),
        EXCHANGE_FAILED
    ));
    window::change_epochs(rt, win, |epochs| epochs.origins = Some(origins));
    SUCCESS
}

/// Ends the exposure epoch, and returns true, if all origins have completed.
fn end_if_completed(rt: &Runtime, win: VirtWin) -> bool {
    let origins = window::get(rt, win).and_then(|window| window.epochs.origins.clone());
    let is_complete =
        exposure::consume_messages(rt, win, &origins.unwrap_or_default(), SyncMessage::Done);
    if is_complete {
        window::change_epochs(rt, win, |epochs| epochs.origins = None);
    }
    is_complete
}

pub unsafe extern "C" fn MPI_Win_wait(win: VirtWin) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_wait;
    // SAFETY: the real library checks its arguments.
    unless_spawned!(rt, procedure, win, |real| Ok(unsafe {
        real::PMPI_Win_wait(real)
    }));
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.origins.is_some())
    );
    outcome!(cut::here(rt));
    while !end_if_completed(rt, win) {
        outcome!(wait_for_message(rt, win));
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Win_test(win: VirtWin, flag: *mut c_int) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Win_test;
    // SAFETY: MPI requires the program's arguments to be valid.
    unless_spawned!(rt, procedure, win, |real| Ok(unsafe {
        real::PMPI_Win_test(real, flag)
    }));
    or_end!(
        rt,
        procedure,
        win,
        check(rt, win, |epochs| epochs.origins.is_some())
    );
    if flag.is_null() {
        return finish_win(rt, procedure, ERR_ARG, win);
    }
    outcome!(cut::here(rt));
    while outcome!(recovery::check_own(
        rt,
        exposure::receive_arrived(rt, win),
        EXCHANGE_FAILED
    )) {}
    // SAFETY: MPI requires the program's address for the result to be valid.
    unsafe { flag.write(c_int::from(end_if_completed(rt, win))) };
    SUCCESS
}
