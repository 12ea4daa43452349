//! Cuts at any call, on which workers agree if candidates are rare.
//!
//! [`understudy_policy::agreement::Agreement`] has the rules. A worker stops at the entry of a
//! communication call, which has not begun then, or in the wait of such a call, whose requests are
//! recorded. After a rollback to the cut, the program repeats the call, which finds the requests
//! (`interrupted_calls::resume`).

use super::take::take_at;
use crate::arch::{self, Rewound, mpi_lock};
use crate::control_messages::{self, Peer, tag};
use crate::generated::MAY_WAIT;
use crate::max_allreduce::{MaxAllreduce, destinations_of_all_rounds};
use crate::objects::comm;
use crate::schedule::{self, AnywhereAgreement, AnywhereVote, CallAction, CutState};
use crate::work_flags::{self, AGREEING, CUT_REQUESTED, MULTIPLE_THREADS};
use crate::{DOOR, Runtime};
use crate::{checkpoint, checkpoint_watchdog, journal, recovery, world};
use std::time::{Duration, Instant};
use understudy_mpi as mpi;

/// Message for a failed vote.
const NO_AGREEMENT: &str = "the workers cannot agree on a cut";
/// Time for which entries of collectives wait for the other workers in one vote.
///
/// The values are the divisor of the interval, the minimum and the maximum.
const ENTRY_WAIT: (u32, Duration, Duration) =
    (16, Duration::from_millis(20), Duration::from_millis(200));
/// Number of entries that may wait this long in one vote.
///
/// While a worker waits at an entry, others wait inside of calls, and vote at their next one.
const MAX_WAITING_ENTRIES: u32 = 4;
/// Number of attempts in direct succession, if the only obstacle was that a worker continued.
const MAX_ATTEMPTS: u32 = 6;

/// Time for which a worker stops before all workers have reached a call.
///
/// Other workers may wait for it outside of MPI. The values are the divisor of the interval, which
/// gives the minimum, and the maximum. The time doubles whenever the worker has given up.
const STOP_TIME: (u32, Duration) = (4, Duration::from_secs(64));
/// Delay of the attempt after a worker has given up, as a multiple.
///
/// The unit is the time for which the worker was stopped.
const PAUSE_FACTOR: u32 = 10;

/// Vote of a worker that has continued, in the second and the third vote.
///
/// `OBJECTS` is the vote for another objection.
const HAS_CONTINUED: i64 = 1;
const OBJECTS: i64 = 2;

/// Takes part in an agreement on a cut at a call.
///
/// The call has not begun, or its requests are recorded. It has returned nothing to the program.
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
/// Such calls are collectives over some of the workers, or locks. The entry waits for a limited
/// time until all workers poll, as this worker could not stop inside of the call.
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
        let may = step(rt)?;
        if std::mem::take(&mut is_new) {
            restart_entry_wait(rt);
        }
        let may_wait = {
            let anywhere = &schedule::state(rt).anywhere;
            let waits = anywhere.agreement.is_vote_end_near() || work_flags::is_set(CUT_REQUESTED);
            waits && anywhere.waits_until.is_some_and(|end| Instant::now() < end)
        };
        if may == CallAction::Resume && !may_wait {
            return leave(rt);
        }
    }
}

/// Starts a new waiting time if the last one ended at an earlier entry.
fn restart_entry_wait(rt: &Runtime) {
    let state = &mut *schedule::state(rt);
    let (now, hold) = (Instant::now(), entry_wait(state));
    let anywhere = &mut state.anywhere;
    if anywhere.further_waits > 0 && anywhere.waits_until.is_some_and(|end| end <= now) {
        anywhere.further_waits -= 1;
        anywhere.waits_until = Some(now + hold);
    }
}

/// Returns the time for which an entry waits.
fn entry_wait(state: &CutState) -> Duration {
    (state.pace.interval() / ENTRY_WAIT.0).clamp(ENTRY_WAIT.1, ENTRY_WAIT.2)
}

/// Enters a call that cannot be left before it completes.
///
/// No worker may stop before this one has returned from it.
pub fn leave(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, continue_program(rt), NO_AGREEMENT)
}

/// Implements `leave` for the end of this process, where failures are ignored.
pub fn leave_at_end(rt: &Runtime) {
    let _ = continue_program(rt);
}

#[inline]
fn continue_program(rt: &Runtime) -> mpi::Result<()> {
    if work_flags::is_set(AGREEING) && schedule::state(rt).anywhere.agreement.resume() {
        send_continued(rt)?;
    }
    Ok(())
}

/// Implements `leave` for the entries of such calls; returns true if the program was rewound.
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
    let may = schedule::state(rt).anywhere.agreement.permitted_action();
    if may == CallAction::Stop && gives_up(rt) {
        leave(rt)?;
        return Ok(CallAction::Resume);
    }
    if may != CallAction::Cut {
        return Ok(may);
    }
    take_at(rt, false)?;
    {
        let anywhere = &mut schedule::state(rt).anywhere;
        anywhere.agreement.end();
        anywhere.attempts = 0;
    }
    end_attempt();
    Ok(CallAction::Resume)
}

/// Returns the time for which this worker stops.
///
/// The time is at least a fraction of the interval, and longer if the worker has given up before.
fn stop_time(state: &CutState) -> Duration {
    state
        .anywhere
        .max_stop_time
        .max(state.pace.interval() / STOP_TIME.0)
}

/// Returns true if this worker gives up, as it has been stopped for this time.
fn gives_up(rt: &Runtime) -> bool {
    let state = &mut *schedule::state(rt);
    let stands = stop_time(state);
    let anywhere = &mut state.anywhere;
    let is_long = |since: Instant| since.elapsed() >= stands;
    let gives_up = anywhere.agreement.may_resume() && anywhere.stood_since.is_some_and(is_long);
    anywhere.has_resumed |= gives_up;
    gives_up
}

/// True if this worker objects to a cut outside of candidates.
fn objects_now(rt: &Runtime) -> bool {
    schedule::state(rt).inhibit_depth > 0 || journal::is_recording(rt) || comm::has_any_spawned(rt)
}

fn advance(rt: &Runtime) -> mpi::Result<()> {
    receive_continued(rt)?;
    let objects = objects_now(rt);
    let world = world::get(rt);
    let parts = (world::worker(rt), world.worker_count);
    let mut guard = schedule::state(rt);
    let state = &mut *guard;
    let (hold, stands_now) = (entry_wait(state), stop_time(state));
    let AnywhereAgreement {
        agreement,
        vote,
        vote_kind: which,
        terms,
        attempts: tries,
        waits_until,
        further_waits: holds,
        stood_since,
        max_stop_time: stands,
        has_resumed: has_given_up,
    } = &mut state.anywhere;
    // True if another attempt may follow at once.
    let mut is_near = false;
    if !agreement.is_under_way() {
        work_flags::clear(CUT_REQUESTED);
        work_flags::set(AGREEING);
        arch::divert(&MAY_WAIT);
        agreement.begin();
        (*waits_until, *holds, *which) = (
            Some(Instant::now() + hold),
            MAX_WAITING_ENTRIES - 1,
            AnywhereVote::Gather,
        );
        let [cost, rate] = state.pace.terms();
        let says = [i64::from(objects), cost, 0, rate];
        let first = MaxAllreduce::new(world.private, tag::CUT_GATHER, parts, says);
        vote.insert(first).start()?;
    }
    while let Some(under_way) = vote {
        // In the first vote the second number is a cost, and the fourth a rate.
        let Some([objections, most, least, rate]) = under_way.poll()? else {
            return Ok(());
        };
        *vote = None;
        log::debug!(
            "attempt {}, {which:?}: {objections} object",
            agreement.number()
        );
        let candidates = state.schedule.cut_points as i64;
        let (agrees, tag) = match which {
            AnywhereVote::Gather => {
                *terms = [most, rate];
                *stood_since = Some(Instant::now());
                (
                    agreement.end_first_vote(objections == 0, !objects),
                    tag::CUT_QUIESCED,
                )
            }
            // If some workers have passed more candidates than others, messages of a collective are
            // in flight.
            AnywhereVote::Stand => (
                agreement.end_second_vote(objections == 0 && most == -least),
                tag::CUT_CONFIRM,
            ),
            AnywhereVote::Confirm => {
                agreement.end_third_vote(objections == 0);
                (None, tag::CUT_CONFIRM)
            }
        };
        is_near = *which != AnywhereVote::Gather && objections == HAS_CONTINUED;
        if agreement.permitted_action() == CallAction::Cut {
            // All have passed an equal number of candidates, since the pace determines the distance
            // of votes.
            state.pace.agree(*terms);
        }
        if let Some(agrees) = agrees {
            let says = match (objects, agrees) {
                (true, _) => OBJECTS,
                (false, false) => HAS_CONTINUED,
                (false, true) => 0,
            };
            *which = which.next();
            (*waits_until, *holds) = (Some(Instant::now() + hold), MAX_WAITING_ENTRIES - 1);
            let next = MaxAllreduce::new(
                world.private,
                tag,
                parts,
                [says, candidates, -candidates, 0],
            );
            vote.insert(next).start()?;
        }
    }
    if !agreement.is_under_way() {
        *tries += 1;
        let is_near = is_near && *tries < MAX_ATTEMPTS;
        if !is_near {
            *tries = 0;
        }
        let pause = std::mem::take(has_given_up).then_some(stands_now * PAUSE_FACTOR);
        if pause.is_some() {
            *stands = (stands_now * 2).min(STOP_TIME.1);
        }
        drop(guard);
        end_attempt();
        match pause {
            None if is_near => work_flags::set(CUT_REQUESTED),
            pause => checkpoint_watchdog::request_later(
                comm::has_any_spawned(rt),
                pause.unwrap_or_default(),
            ),
        }
    }
    Ok(())
}

/// Sends that a worker continues in the present attempt, or in the latest known one.
///
/// The receivers forward the message to the other workers.
fn send_continued(rt: &Runtime) -> mpi::Result<()> {
    let world = world::get(rt);
    let me = world::worker(rt);
    let state = &mut *schedule::state(rt);
    let to = destinations_of_all_rounds(me, world.worker_count).map(|rank| Peer {
        comm: world.private,
        rank,
        tag: tag::CUT_VETO,
    });
    state
        .control_messages
        .send(state.anywhere.agreement.last_resumed().to_ne_bytes(), to)
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
            .agreement
            .record_resumption(attempt);
        if is_news {
            send_continued(rt)?;
        }
    }
}
