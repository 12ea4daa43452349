//! Cuts at any communication call, on which workers agree if cut points are rare.
//!
//! [`understudy_policy::agreement::Agreement`] has the rules. A worker stops at the entry of a
//! communication call, before the call begins, or in the wait of a communication call, whose
//! requests are recorded. After a rollback to the cut, the program repeats the call, which finds
//! the requests (`interrupted_calls::resume`).

use super::take::take_at;
use crate::arch::{self, Rewound, mpi_lock};
use crate::control_messages::{self, Peer, tag};
use crate::generated::MAY_WAIT;
use crate::max_allreduce::{MaxAllreduce, Numbers, destinations_of_all_rounds};
use crate::objects::comm;
use crate::schedule::{self, AnywhereAgreement, CallAction, CutState};
use crate::work_flags::{self, AGREEING, CUT_REQUESTED, MULTIPLE_THREADS};
use crate::{DOOR, Runtime};
use crate::{checkpoint, checkpoint_watchdog, journal, recovery, world};
use std::time::{Duration, Instant};
use understudy_mpi as mpi;
use understudy_policy::agreement::{VoteAction, VoteKind, WorkerState};

/// Message for a failed vote.
const NO_AGREEMENT: &str = "the workers cannot agree on a cut";
/// Time for which a worker waits for one vote at an entry ([`enter_waiting_call`]).
///
/// The values are the divisor of the interval, the minimum and the maximum.
const ENTRY_WAIT: (u32, Duration, Duration) =
    (16, Duration::from_millis(20), Duration::from_millis(200));
/// Largest number of entries at which a worker waits for this time in one vote.
///
/// Waiting at one entry may not be enough: other workers may be inside of calls that wait for this
/// worker, and vote only at their next calls.
const MAX_WAITING_ENTRIES: u32 = 4;
/// Divisor of the interval that gives the minimum stop time.
const STOP_DIVISOR: u32 = 4;

/// Takes part in an agreement on a cut at a call.
///
/// The call has not begun, or its requests are recorded. In neither case has the call returned
/// anything to the program.
#[inline(always)]
pub fn here(rt: &Runtime) -> Result<(), Rewound> {
    if work_flags::is_any_set() {
        poll_agreement(rt)
    } else {
        Ok(())
    }
}

/// Takes part in an agreement between two polls; yields to other threads.
#[inline(always)]
pub fn meanwhile(rt: &Runtime) -> Result<(), Rewound> {
    if work_flags::is_any_set() {
        poll_agreement(rt)?;
        if work_flags::is_set(MULTIPLE_THREADS) {
            mpi_lock::yield_lock()
        } else {
            Ok(())
        }
    } else {
        Ok(())
    }
}

/// Makes progress with an agreement, and takes the cut if one is agreed.
#[cold]
#[inline(never)]
pub(super) fn poll_agreement(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    if takes_part() {
        while step(rt)? == CallAction::Stop {}
    }
    Ok(())
}

/// True if this worker takes part in an agreement.
fn takes_part() -> bool {
    work_flags::is_set(CUT_REQUESTED | AGREEING)
        && arch::top_frame().is_some()
        && world::is_protected()
}

/// Enters a call that waits for other workers' programs and cannot be left early.
///
/// Such calls are collectives over some of the workers, or locks. Inside of the call this worker
/// could not stop for a cut. The entry therefore waits, for a limited time, until all workers poll.
#[inline]
pub fn enter_waiting_call(rt: &Runtime) -> Result<(), Rewound> {
    if work_flags::is_any_set() {
        wait_outside(rt)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn wait_outside(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    if !takes_part() {
        return leave(rt);
    }
    let mut is_new = true;
    loop {
        let action = step(rt)?;
        if std::mem::take(&mut is_new) {
            restart_entry_wait(rt);
        }
        let may_wait = {
            let anywhere = &schedule::state(rt).anywhere;
            let waits =
                anywhere.votes.agreement.is_vote_end_near() || work_flags::is_set(CUT_REQUESTED);
            waits && anywhere.waits_until.is_some_and(|end| Instant::now() < end)
        };
        if action == CallAction::Resume && !may_wait {
            return leave(rt);
        }
    }
}

/// Starts a new waiting time if the last one ended at an earlier entry.
fn restart_entry_wait(rt: &Runtime) {
    let state = &mut *schedule::state(rt);
    let (now, wait) = (Instant::now(), entry_wait(state));
    let anywhere = &mut state.anywhere;
    if anywhere.further_waits > 0 && anywhere.waits_until.is_some_and(|end| end <= now) {
        anywhere.further_waits -= 1;
        anywhere.waits_until = Some(now + wait);
    }
}

/// Returns the time for which an entry waits.
fn entry_wait(state: &CutState) -> Duration {
    (state.pace.interval() / ENTRY_WAIT.0).clamp(ENTRY_WAIT.1, ENTRY_WAIT.2)
}

/// Enters a call that cannot be left before it completes.
///
/// No worker may stop for a cut before this worker has returned from the call.
pub fn leave(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, continue_program(rt), NO_AGREEMENT)
}

/// Implements `leave` for the end of this process, where failures are ignored.
pub fn leave_at_end(rt: &Runtime) {
    let _ = continue_program(rt);
}

#[inline]
fn continue_program(rt: &Runtime) -> mpi::Result<()> {
    if work_flags::is_set(AGREEING) && schedule::state(rt).anywhere.votes.agreement.resume() {
        send_continued(rt)?;
    }
    Ok(())
}

/// Implements `leave` for diverted handlers ([`arch::divert`]).
///
/// Returns true if the program was rewound.
pub extern "C" fn leave_by_call() -> bool {
    leave(DOOR.get()).is_err()
}

/// Ends all agreements, as no more cuts are taken.
pub(super) fn finish(rt: &Runtime) {
    let before = std::mem::replace(&mut schedule::state(rt).anywhere, AnywhereAgreement::NONE);
    if let Some(vote) = before.vote {
        vote.cancel();
    }
    end_attempt();
}

fn end_attempt() {
    work_flags::clear(CUT_REQUESTED | AGREEING);
    arch::undivert(&MAY_WAIT);
}

/// Makes progress as far as possible, and takes the cut if one is agreed.
fn step(rt: &Runtime) -> Result<CallAction, Rewound> {
    checkpoint::poll(rt)?;
    recovery::check_own(rt, advance(rt), NO_AGREEMENT)?;
    let permitted = schedule::state(rt)
        .anywhere
        .votes
        .agreement
        .permitted_action();
    if permitted == CallAction::Stop && gives_up(rt) {
        leave(rt)?;
        return Ok(CallAction::Resume);
    }
    if permitted != CallAction::Cut {
        return Ok(permitted);
    }
    take_at(rt, false)?;
    schedule::state(rt).anywhere.votes.end();
    end_attempt();
    Ok(CallAction::Resume)
}

/// Returns the minimum stop time.
///
/// A worker that stops waits for at least this time for all workers to reach a call.
fn min_stop_time(state: &CutState) -> Duration {
    state.pace.interval() / STOP_DIVISOR
}

/// Returns true if this worker gives up, as it has been stopped for long.
fn gives_up(rt: &Runtime) -> bool {
    let state = &mut *schedule::state(rt);
    let min_stop_time = min_stop_time(state);
    let AnywhereAgreement {
        votes, stood_since, ..
    } = &mut state.anywhere;
    stood_since.is_some_and(|since| votes.give_up_after(since.elapsed(), min_stop_time))
}

/// True if this worker objects to a cut at any call.
fn objects_now(rt: &Runtime) -> bool {
    schedule::state(rt).inhibit_depth > 0 || journal::is_recording(rt) || comm::has_any_spawned(rt)
}

/// Advances the votes of the present attempt, or begins an attempt.
fn advance(rt: &Runtime) -> mpi::Result<()> {
    receive_continued(rt)?;
    let objects = objects_now(rt);
    let mut guard = schedule::state(rt);
    let state = &mut *guard;
    let worker = WorkerState {
        objects,
        candidates: state.schedule.candidates,
    };
    let mut action = None;
    if !state.anywhere.votes.agreement.is_under_way() {
        work_flags::clear(CUT_REQUESTED);
        work_flags::set(AGREEING);
        arch::divert(&MAY_WAIT);
        let terms = state.pace.terms();
        action = Some(state.anywhere.votes.begin(worker, terms));
    }
    loop {
        match action {
            Some(VoteAction::Start(kind, numbers)) => start_vote(rt, state, kind, numbers)?,
            // All workers have passed an equal number of candidates, so all of them change the pace
            // at the same candidate. The pace determines the distance of later votes.
            Some(VoteAction::Cut(terms)) => {
                state.pace.agree(terms);
                return Ok(());
            }
            Some(VoteAction::Retry) => {
                end_attempt();
                work_flags::set(CUT_REQUESTED);
                return Ok(());
            }
            Some(VoteAction::GiveUp { pause }) => {
                drop(guard);
                end_attempt();
                checkpoint_watchdog::request_later(comm::has_any_spawned(rt), pause);
                return Ok(());
            }
            None => {}
        }
        let Some(vote) = &mut state.anywhere.vote else {
            return Ok(());
        };
        let Some(maxima) = vote.poll()? else {
            return Ok(());
        };
        state.anywhere.vote = None;
        log::debug!("{:?}: {maxima:?}", state.anywhere.votes);
        let min_stop_time = min_stop_time(state);
        let votes = &mut state.anywhere.votes;
        action = Some(votes.end_vote(maxima, worker, min_stop_time));
    }
}

fn start_vote(
    rt: &Runtime,
    state: &mut CutState,
    kind: VoteKind,
    numbers: Numbers,
) -> mpi::Result<()> {
    let tag = match kind {
        VoteKind::First => tag::CUT_GATHER,
        VoteKind::Second => tag::CUT_QUIESCED,
        VoteKind::Third => tag::CUT_CONFIRM,
    };
    let now = Instant::now();
    if kind == VoteKind::Second {
        state.anywhere.stood_since = Some(now);
    }
    let (world, end) = (world::get(rt), now + entry_wait(state));
    let anywhere = &mut state.anywhere;
    (anywhere.waits_until, anywhere.further_waits) = (Some(end), MAX_WAITING_ENTRIES - 1);
    let me = (world::worker(rt), world.worker_count);
    let vote = MaxAllreduce::new(world.private, tag, me, numbers);
    anywhere.vote.insert(vote).start()
}

/// Sends the notification that a worker continues in an attempt.
///
/// The attempt is the last one in which this worker or another has continued. Each receiver
/// forwards the notification to further workers.
fn send_continued(rt: &Runtime) -> mpi::Result<()> {
    let world = world::get(rt);
    let me = world::worker(rt);
    let state = &mut *schedule::state(rt);
    let to = destinations_of_all_rounds(me, world.worker_count).map(|rank| Peer {
        comm: world.private,
        rank,
        tag: tag::CUT_VETO,
    });
    state.control_messages.send(
        state.anywhere.votes.agreement.last_resumed().to_ne_bytes(),
        to,
    )
}

/// Receives messages from workers that continue.
fn receive_continued(rt: &Runtime) -> mpi::Result<()> {
    loop {
        schedule::state(rt).control_messages.remove_sent()?;
        let Some((_, bytes)) = control_messages::next(world::private(rt), tag::CUT_VETO)? else {
            return Ok(());
        };
        let attempt = u64::from_ne_bytes(bytes.try_into().map_err(|_| mpi::Error::INTERN)?);
        let is_news = schedule::state(rt)
            .anywhere
            .votes
            .agreement
            .record_resumption(attempt);
        if is_news {
            send_continued(rt)?;
        }
    }
}
