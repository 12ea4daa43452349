//! Candidates for cuts, and the votes between them.
//!
//! A candidate, or cut point, is the entry of a collective over all workers, or a point that the
//! program names; all workers pass equal sequences of candidates. With an interval in calls every
//! n-th candidate is a cut. With an interval in time, a vote ([`crate::max_allreduce`]) decides for
//! all workers whether a cut is due. The result of a vote is evaluated a fixed number of candidates
//! after its start, so that all workers evaluate the same vote, and usually none waits for it. With
//! `auto` the interval itself follows from the vote.

use super::anywhere::{self, enter_waiting_call};
use super::take::take;
use super::together::{all_together, gather_before_cut};
use crate::arch::{self, Rewound};
use crate::control_messages::tag;
use crate::handles::VirtComm;
use crate::max_allreduce::{MaxAllreduce, Numbers};
use crate::objects::comm;
use crate::schedule;
use crate::static_data::{self, new_phases};
use crate::{Runtime, recovery};
use crate::{
    annotations, checkpoint, checkpoint_watchdog, copies, errors, headroom, journal, process_info,
    reinit, requested_checkpoint, work_flags, world,
};
use std::ffi::c_int;
use std::time::Instant;
use understudy_mpi as mpi;
use understudy_policy::candidate_schedule::{CandidateVote, Decision, JointCandidateVote};

/// Message for a failed vote.
const NO_VOTE: &str = "the workers cannot agree on a cut";

/// Ends agreements on cuts, and completes the vote under way, at the program's end.
///
/// All workers have passed equal sequences of candidates, so this vote is under way in all of them.
pub fn finish(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint_watchdog::end();
    requested_checkpoint::end();
    anywhere::finish(rt);
    while schedule::state(rt).vote.is_some() {
        if advance_vote(rt)?.is_some() {
            schedule::state(rt).vote = None;
        }
    }
    Ok(())
}

/// Passes the entry of a blocking collective.
///
/// The entry is a candidate if the communicator spans all workers.
#[inline]
pub fn collective(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    let spans_all = comm::spans_all(rt, comm);
    if work_flags::is_any_set() || work_flags::is_multiple() {
        await_others(rt, comm, spans_all)?;
    }
    if spans_all {
        pass(rt)?;
    } else if process_info::config().anywhere {
        // Only an agreement on a cut at any call needs the number of collectives over some workers.
        comm::count_collective(rt, comm);
    }
    arch::mark_blocking_wait();
    Ok(())
}

/// Waits for a checkpoint or an agreement under way, as a collective requires.
#[cold]
fn await_others(rt: &Runtime, comm: VirtComm, spans_all: bool) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    gather_before_cut(rt, comm)?;
    match spans_all {
        true => Ok(()),
        false => enter_waiting_call(rt),
    }
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
        schedule::state(rt).schedule.candidates -= 1;
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
        state.schedule.postpone();
        state.next_action = 0;
    }
    drop(state);
    pass(rt)
}

/// Passes a candidate, at which this worker may wait for all others.
///
/// While this worker waits here, it cannot stop for a cut at any call. It therefore first leaves an
/// agreement on such a cut.
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
    state.schedule.candidates += 1;
    if state.schedule.candidates < state.next_action {
        Ok(())
    } else {
        drop(state);
        act_at_candidate(rt)
    }
}

/// Passes a candidate at which a decision is due or a vote needs polling.
#[cold]
fn act_at_candidate(rt: &Runtime) -> Result<(), Rewound> {
    if schedule::schedule(rt).is_decision() {
        decide(rt)?;
    } else {
        advance_vote(rt)?;
    }
    let mut state = schedule::state(rt);
    let needs_polling = state.vote.as_ref().is_some_and(MaxAllreduce::needs_polling);
    state.next_action = if needs_polling {
        0
    } else {
        state.schedule.next
    };
    Ok(())
}

fn decide(rt: &Runtime) -> Result<(), Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    let interval = process_info::config().interval;
    let decision = schedule::state(rt).schedule.decide(interval);
    let is_overdue = match decision {
        Decision::Continue => return Ok(()),
        Decision::Take => return take(rt),
        Decision::Vote { is_overdue } => is_overdue,
    };
    if !copies::is_pending() {
        static_data::poll(rt);
    }
    let is_due = end_vote(rt)?;
    schedule::state(rt).schedule.schedule_next();
    if is_due || is_overdue {
        take(rt)?;
    }
    match world::is_protected() {
        true => start_vote(rt),
        false => Ok(()),
    }
}

/// Starts the vote whose result the next decision uses.
fn start_vote(rt: &Runtime) -> Result<(), Rewound> {
    let numbers = own_vote(rt).numbers();
    let (world, me) = (world::get(rt), world::worker(rt));
    let vote = MaxAllreduce::new(world.private, tag::VOTE, (me, world.worker_count), numbers);
    let started = schedule::state(rt).vote.insert(vote).start();
    recovery::check_own(rt, started, NO_VOTE)
}

fn own_vote(rt: &Runtime) -> CandidateVote {
    let state = &mut *schedule::state(rt);
    let (now, interval) = (Instant::now(), state.pace.interval());
    let elapsed = state.last.map(|last| now.duration_since(last));
    let is_over = elapsed.is_some_and(|elapsed| elapsed >= interval);
    if elapsed.is_some_and(|elapsed| elapsed >= interval / 2) {
        copies::prepare(rt);
    }
    let is_due = is_over
        || requested_checkpoint::pending().is_some()
        || (state.refusals == 0 && reinit::order_to_leave().is_some())
        || state.pace.poll_warning(state.last)
        || headroom::is_memory_released()
        || copies::needs_checkpoint(rt)
        || journal::take_cut_request(rt)
        || new_phases::is_cut_requested(rt);
    let candidates = state.schedule.candidates;
    let before = state.decided.replace((now, candidates));
    let since =
        |(then, at): (Instant, u64)| now.duration_since(then) / (candidates - at).max(1) as u32;
    CandidateVote {
        inhibits: state.inhibit_depth > 0,
        is_due,
        is_recording: journal::is_recording(rt),
        per_candidate: before.map_or(interval, since),
        terms: state.pace.terms(),
    }
}

/// Advances the vote; returns its result once it is complete.
fn advance_vote(rt: &Runtime) -> Result<Option<Numbers>, Rewound> {
    let polled = schedule::state(rt).vote.as_mut().map(MaxAllreduce::poll);
    recovery::check_own(rt, polled.unwrap_or(Ok(None)), NO_VOTE)
}

/// Completes the vote under way, if any, at one candidate in all workers.
///
/// Returns true if a cut is due.
fn end_vote(rt: &Runtime) -> Result<bool, Rewound> {
    let maxima = loop {
        if schedule::state(rt).vote.is_none() {
            return Ok(false);
        }
        if let Some(maxima) = advance_vote(rt)? {
            break maxima;
        }
    };
    let state = &mut *schedule::state(rt);
    state.vote = None;
    let vote = JointCandidateVote::from(maxima);
    let interval = state.pace.agree(vote.terms);
    Ok(state.schedule.end_vote(vote, interval))
}
