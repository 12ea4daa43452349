//! Candidates for cuts, and the votes between them.
//!
//! A candidate is the entry of a collective over all workers; all workers pass equal sequences of
//! candidates. With an interval in calls every n-th candidate is a cut. With an interval in time, a
//! vote ([`crate::max_allreduce`]) decides for all workers whether one is due; its result is
//! evaluated a fixed number of candidates after it was started, so that all evaluate the same one,
//! and no worker waits for it. With `auto` the interval itself follows from the vote.

use super::anywhere::{self, enter_waiting_call};
use super::take::take;
use super::together::{all_together, gather_before_cut};
use crate::arch::{self, Rewound};
use crate::control_messages::tag;
use crate::handles::VirtComm;
use crate::max_allreduce::{MaxAllreduce, Numbers};
use crate::objects::comm;
use crate::schedule::{self, Schedule};
use crate::static_data::{self, new_phases};
use crate::{Runtime, recovery};
use crate::{
    annotations, checkpoint, checkpoint_watchdog, copies, errors, headroom, journal, process_info,
    world,
};
use std::ffi::c_int;
use std::time::Instant;
use understudy_mpi as mpi;
use understudy_settings::Interval;

/// Maximum number of candidates that are passed without a vote.
///
/// After a burst of quick candidates, such as at a program's start, slow ones may follow. The next
/// cut should not wait for many of these.
const MAX_STRIDE: u64 = 32;
/// Maximum number while a worker records a phase.
///
/// The phase should end soon after this worker requests it.
const PHASE_STRIDE: u64 = 2;

/// Consequence of a failed vote, for the user.
const NO_VOTE: &str = "the workers cannot agree on a cut";
/// Flags of a worker in a vote; the greatest sum counts.
const IS_RECORDING: i64 = 1;
const IS_DUE: i64 = 2;
const INHIBITS: i64 = 4;

/// Completes the vote under way, at the end of the program.
///
/// All workers have passed equal sequences of candidates, so this vote is under way in all of them.
pub fn finish(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint_watchdog::end();
    anywhere::finish(rt);
    while schedule::state(rt).vote.is_some() {
        if advance_vote(rt)?.is_some() {
            schedule::state(rt).vote = None;
        }
    }
    Ok(())
}

/// Passes the entry of a collective.
#[inline]
pub fn collective(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    gather_before_cut(rt, comm)?;
    if comm::spans_all(rt, comm) {
        pass(rt)?;
    } else {
        enter_waiting_call(rt)?;
        // Only an agreement on a cut at any call needs their number.
        if process_info::config().anywhere {
            comm::count_collective(rt, comm);
        }
    }
    arch::mark_blocking_wait();
    Ok(())
}

/// Uncounts a blocking collective that has failed because of its arguments.
///
/// The failed call has not communicated: other workers count the collective when it is called
/// correctly.
#[cold]
pub fn withdraw(rt: &Runtime, comm: VirtComm, rc: c_int) {
    let of_arguments = |error: mpi::Error| errors::is_argument_class(error.class());
    if !mpi::check(rc).is_err_and(of_arguments) {
        return;
    }
    if comm::spans_all(rt, comm) {
        schedule::state(rt).schedule.cut_points -= 1;
    } else if process_info::config().anywhere {
        comm::uncount_collective(rt, comm);
    }
}

/// Passes a point that the program names in all workers.
pub fn point(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    all_together(rt)?;
    pass(rt)
}

/// Passes a point at which the program requests a cut.
pub fn requested(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    all_together(rt)?;
    let mut state = schedule::state(rt);
    if !state.resumed {
        state.schedule.is_postponed = true;
        state.schedule.next = state.schedule.cut_points + 1;
        state.next_action = 0;
    }
    drop(state);
    pass(rt)
}

/// Passes a candidate, at which this worker may wait for all others.
///
/// No worker may stop before this candidate.
#[inline]
fn pass(rt: &Runtime) -> Result<(), Rewound> {
    anywhere::leave(rt)?;
    candidate(rt)?;
    annotations::pass_point(rt);
    Ok(())
}

#[inline]
fn candidate(rt: &Runtime) -> Result<(), Rewound> {
    let mut state = schedule::state(rt);
    if state.resumed {
        state.resumed = false;
        return Ok(());
    }
    state.schedule.cut_points += 1;
    if state.schedule.cut_points < state.next_action {
        Ok(())
    } else {
        drop(state);
        awake(rt)
    }
}

/// Passes a candidate that needs more than counting.
#[cold]
fn awake(rt: &Runtime) -> Result<(), Rewound> {
    let Schedule {
        cut_points: candidates,
        next,
        ..
    } = schedule::schedule(rt);
    if candidates >= next {
        decide(rt)?;
    } else {
        advance_vote(rt)?;
    }
    let mut state = schedule::state(rt);
    let needs_help = state.vote.as_ref().is_some_and(MaxAllreduce::needs_polling);
    state.next_action = if needs_help { 0 } else { state.schedule.next };
    Ok(())
}

fn decide(rt: &Runtime) -> Result<(), Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    let overdue = std::mem::take(&mut schedule::state(rt).schedule.is_postponed);
    match process_info::config().interval {
        Interval::Off => {
            schedule::state(rt).schedule.next = u64::MAX;
            if overdue {
                return take(rt);
            }
        }
        Interval::Calls(calls) => {
            let mut state = schedule::state(rt);
            let candidates = state.schedule.cut_points;
            state.schedule.next = (candidates / calls + 1) * calls;
            drop(state);
            if overdue || candidates.is_multiple_of(calls) {
                return take(rt);
            }
        }
        Interval::Time(_) | Interval::Auto => {
            if !copies::is_pending() {
                static_data::poll(rt);
            }
            let due = tally(rt)? || overdue;
            {
                let schedule = &mut schedule::state(rt).schedule;
                schedule.next = schedule.cut_points + schedule.stride;
            }
            if due {
                take(rt)?;
            }
            if world::is_protected() {
                return vote(rt);
            }
        }
    }
    Ok(())
}

/// Starts the vote whose result the next decision uses.
fn vote(rt: &Runtime) -> Result<(), Rewound> {
    let mut guard = schedule::state(rt);
    let state = &mut *guard;
    let interval = state.pace.interval();
    let now = Instant::now();
    let is_over = state
        .last
        .is_some_and(|last| now.duration_since(last) >= interval);
    let is_due = is_over
        || state.pace.poll_warning(state.last)
        || headroom::is_memory_released()
        || journal::take_cut_request(rt)
        || new_phases::is_cut_requested(rt);
    let says = [
        (state.inhibit_depth > 0, INHIBITS),
        (is_due, IS_DUE),
        (journal::is_recording(rt), IS_RECORDING),
    ];
    let says: i64 = says
        .iter()
        .map(|&(says, what)| i64::from(says) * what)
        .sum();
    let before = state.decided.replace((now, state.schedule.cut_points));
    let since = |(then, at): (Instant, u64)| {
        now.duration_since(then) / (state.schedule.cut_points - at).max(1) as u32
    };
    let per_candidate = before.map_or(interval, since).as_nanos() as i64;
    let [cost, rate] = state.pace.terms();
    let (world, numbers) = (world::get(rt), [says, per_candidate, cost, rate]);
    drop(guard);
    let vote = MaxAllreduce::new(
        world.private,
        tag::VOTE,
        (world::worker(rt), world.worker_count),
        numbers,
    );
    let started = schedule::state(rt).vote.insert(vote).start();
    recovery::check_own(rt, started, NO_VOTE)
}

/// Advances the vote; returns its result once it is complete.
fn advance_vote(rt: &Runtime) -> Result<Option<Numbers>, Rewound> {
    let polled = schedule::state(rt).vote.as_mut().map(MaxAllreduce::poll);
    recovery::check_own(rt, polled.unwrap_or(Ok(None)), NO_VOTE)
}

/// Completes the vote, at one candidate in all workers.
///
/// Returns true if a cut is due. Also sets the stride from the slowest worker's time, and the pace
/// from the highest cost.
fn tally(rt: &Runtime) -> Result<bool, Rewound> {
    let [said, per_candidate, cost, rate] = loop {
        if schedule::state(rt).vote.is_none() {
            return Ok(false);
        }
        if let Some(numbers) = advance_vote(rt)? {
            break numbers;
        }
    };
    let state = &mut *schedule::state(rt);
    state.vote = None;
    // One vote per fiftieth of the interval is precise and rare enough.
    let apart = state.pace.agree([cost, rate]).as_nanos() as i64 / 50;
    let wanted = (apart / per_candidate.max(1)).max(1) as u64;
    let most = if said & IS_RECORDING != 0 {
        PHASE_STRIDE
    } else {
        MAX_STRIDE
    };
    state.schedule.stride = wanted.min(2 * state.schedule.stride).min(most);
    Ok(said & IS_DUE != 0 && said & INHIBITS == 0)
}
