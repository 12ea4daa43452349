//! Cuts at any call, on which workers agree if candidates are rare.
//!
//! [`understudy_policy::agreement::Agreement`] has the rules. A worker stops at the entry of a
//! communication call, which has not begun then, or in the wait of such a call, whose requests are
//! recorded. After a rollback to the cut, the program repeats the call, which finds the requests
//! (`requests::resume`).

use super::take::take_at;
use crate::arch::{self, Rewound, turn};
use crate::attention::{self, AGREEING, ASKED, SEVERAL};
use crate::generated::MAY_WAIT;
use crate::objects::comm;
use crate::own_messages::{self, Peer, tag};
use crate::rounds::{Rounds, peers_of};
use crate::schedule::{self, Anywhere, May, State, Vote};
use crate::{DOOR, Runtime};
use crate::{checkpoint, journal, overdue, recovery, world};
use std::time::{Duration, Instant};
use understudy_mpi as mpi;

/// Message for a failed vote.
const NO_AGREEMENT: &str = "the workers cannot agree on a cut";
/// Time for which entries of collectives wait for the other workers in one vote.
///
/// The values are the divisor of the interval, the minimum and the maximum.
const HOLD: (u32, Duration, Duration) = (16, Duration::from_millis(20), Duration::from_millis(200));
/// Number of entries that may wait this long in one vote.
///
/// While a worker waits at an entry, others wait inside of calls, and vote at their next one.
const HOLDS: u32 = 4;
/// Number of attempts in direct succession, if the only obstacle was that a worker continued.
const TRIES: u32 = 6;

/// Time for which a worker stops before all workers have reached a call.
///
/// Other workers may wait for it outside of MPI. The values are the divisor of the interval, which
/// gives the minimum, and the maximum. The time doubles whenever the worker has given up.
const STANDS: (u32, Duration) = (4, Duration::from_secs(64));
/// Delay of the attempt after a worker has given up, as a multiple.
///
/// The unit is the time for which the worker was stopped.
const PAUSE: u32 = 10;

/// Vote of a worker that has continued, in the second and the third vote.
///
/// `OBJECTS` is the vote for another objection.
const HAS_GONE_ON: i64 = 1;
const OBJECTS: i64 = 2;

/// Takes part in an agreement on a cut at a call.
///
/// The call has not begun, or its requests are recorded. It has returned nothing to the program.
#[inline(always)]
pub fn here(rt: &Runtime) -> Result<(), Rewound> {
    if attention::is_on() { look(rt) } else { Ok(()) }
}

/// Takes part in an agreement between two polls; yields to other threads.
#[inline(always)]
pub fn meanwhile(rt: &Runtime) -> Result<(), Rewound> {
    if attention::is_on() {
        look(rt)?;
        if attention::is(SEVERAL) {
            turn::give_way()
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
pub(super) fn look(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    if is_asked() {
        while step(rt)? == May::Stand {}
    }
    Ok(())
}

/// True if this worker takes part in an agreement.
fn is_asked() -> bool {
    attention::is(ASKED | AGREEING) && arch::top_frame().is_some() && world::is_protected()
}

/// Enters a call that waits for other workers' programs and cannot be left early.
///
/// Such calls are collectives over some of the workers, or locks. The entry waits for a limited
/// time until all workers poll, as this worker could not stop inside of the call.
#[inline]
pub fn hold(rt: &Runtime) -> Result<(), Rewound> {
    if attention::is_on() {
        wait_outside(rt)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn wait_outside(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    if !is_asked() {
        return leave(rt);
    }
    let mut is_new = true;
    loop {
        let may = step(rt)?;
        if std::mem::take(&mut is_new) {
            hold_again(rt);
        }
        let may_wait = {
            let anywhere = &schedule::state(rt).anywhere;
            let waits = anywhere.agreement.is_hopeful() || attention::is(ASKED);
            waits && anywhere.waits_until.is_some_and(|end| Instant::now() < end)
        };
        if may == May::GoOn && !may_wait {
            return leave(rt);
        }
    }
}

/// Starts a new waiting time if the last one ended at an earlier entry.
fn hold_again(rt: &Runtime) {
    let state = &mut *schedule::state(rt);
    let (now, hold) = (Instant::now(), hold_for(state));
    let anywhere = &mut state.anywhere;
    if anywhere.holds > 0 && anywhere.waits_until.is_some_and(|end| end <= now) {
        anywhere.holds -= 1;
        anywhere.waits_until = Some(now + hold);
    }
}

/// Returns the time for which an entry waits.
fn hold_for(state: &State) -> Duration {
    (state.pace.interval() / HOLD.0).clamp(HOLD.1, HOLD.2)
}

/// Enters a call that cannot be left before it completes.
///
/// No worker may stop before this one has returned from it.
pub fn leave(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, go_on(rt), NO_AGREEMENT)
}

/// Implements [`leave`] for the end of this process, where failures are ignored.
pub fn part(rt: &Runtime) {
    let _ = go_on(rt);
}

#[inline]
fn go_on(rt: &Runtime) -> mpi::Result<()> {
    if attention::is(AGREEING) && schedule::state(rt).anywhere.agreement.goes_on() {
        tell_off(rt)?;
    }
    Ok(())
}

/// Implements [`leave`] for the entries of such calls; returns true if the program was rewound.
pub extern "C" fn leave_by_call() -> bool {
    leave(DOOR.get()).is_err()
}

/// Ends all agreements, as no more cuts are taken.
pub(super) fn finish(rt: &Runtime) {
    let before = std::mem::replace(&mut schedule::state(rt).anywhere, Anywhere::NONE);
    if let Some(vote) = before.vote {
        vote.cancel();
    }
    is_over();
}

fn is_over() {
    attention::clear(ASKED | AGREEING);
    arch::undivert(&MAY_WAIT);
}

/// Makes progress as far as possible, and takes the cut if one is agreed.
fn step(rt: &Runtime) -> Result<May, Rewound> {
    checkpoint::poll(rt)?;
    recovery::check_own(rt, advance(rt), NO_AGREEMENT)?;
    let may = schedule::state(rt).anywhere.agreement.may();
    if may == May::Stand && has_stood_long(rt) {
        leave(rt)?;
        return Ok(May::GoOn);
    }
    if may != May::Cut {
        return Ok(may);
    }
    take_at(rt, false)?;
    {
        let anywhere = &mut schedule::state(rt).anywhere;
        anywhere.agreement.end();
        anywhere.tries = 0;
    }
    is_over();
    Ok(May::GoOn)
}

/// Returns the time for which this worker stops.
///
/// It is at least a fraction of the interval, and longer if the worker has given up before.
fn stands_for(state: &State) -> Duration {
    state.anywhere.stands.max(state.pace.interval() / STANDS.0)
}

/// Returns true if this worker gives up, as it has been stopped for this time.
fn has_stood_long(rt: &Runtime) -> bool {
    let state = &mut *schedule::state(rt);
    let stands = stands_for(state);
    let anywhere = &mut state.anywhere;
    let is_long = |since: Instant| since.elapsed() >= stands;
    let gives_up = anywhere.agreement.may_give_up() && anywhere.stood_since.is_some_and(is_long);
    anywhere.has_given_up |= gives_up;
    gives_up
}

/// True if this worker objects to a cut outside of candidates.
fn objects_now(rt: &Runtime) -> bool {
    schedule::state(rt).held > 0 || journal::is_recording(rt) || comm::is_any_connected(rt)
}

fn advance(rt: &Runtime) -> mpi::Result<()> {
    hear(rt)?;
    let objects = objects_now(rt);
    let world = world::get(rt);
    let parts = (world::worker(rt), world.worker_count);
    let mut guard = schedule::state(rt);
    let state = &mut *guard;
    let (hold, stands_now) = (hold_for(state), stands_for(state));
    let Anywhere {
        agreement,
        vote,
        which,
        terms,
        tries,
        waits_until,
        holds,
        stood_since,
        stands,
        has_given_up,
    } = &mut state.anywhere;
    // True if another attempt may follow at once.
    let mut is_near = false;
    if !agreement.is_under_way() {
        attention::clear(ASKED);
        attention::set(AGREEING);
        arch::divert(&MAY_WAIT);
        agreement.begin();
        (*waits_until, *holds, *which) = (Some(Instant::now() + hold), HOLDS - 1, Vote::Gather);
        let [cost, rate] = state.pace.terms();
        let says = [i64::from(objects), cost, 0, rate];
        let first = Rounds::new(world.private, tag::GATHER, parts, says);
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
        let candidates = state.schedule.candidates as i64;
        let (agrees, tag) = match which {
            Vote::Gather => {
                *terms = [most, rate];
                *stood_since = Some(Instant::now());
                (agreement.gathered(objections == 0, !objects), tag::STAND)
            }
            // If some workers have passed more candidates than others, messages of a collective are
            // in flight.
            Vote::Stand => (
                agreement.stood(objections == 0 && most == -least),
                tag::CONFIRM,
            ),
            Vote::Confirm => {
                agreement.confirmed(objections == 0);
                (None, tag::CONFIRM)
            }
        };
        is_near = *which != Vote::Gather && objections == HAS_GONE_ON;
        if agreement.may() == May::Cut {
            // All have passed an equal number of candidates, since the pace determines the distance
            // of votes.
            state.pace.agree(*terms);
        }
        if let Some(agrees) = agrees {
            let says = match (objects, agrees) {
                (true, _) => OBJECTS,
                (false, false) => HAS_GONE_ON,
                (false, true) => 0,
            };
            *which = which.next();
            (*waits_until, *holds) = (Some(Instant::now() + hold), HOLDS - 1);
            let next = Rounds::new(
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
        let is_near = is_near && *tries < TRIES;
        if !is_near {
            *tries = 0;
        }
        let pause = std::mem::take(has_given_up).then_some(stands_now * PAUSE);
        if pause.is_some() {
            *stands = (stands_now * 2).min(STANDS.1);
        }
        drop(guard);
        is_over();
        match pause {
            None if is_near => attention::set(ASKED),
            pause => overdue::ask_again(comm::is_any_connected(rt), pause.unwrap_or_default()),
        }
    }
    Ok(())
}

/// Sends that a worker continues in the present attempt, or in the latest known one.
///
/// The receivers forward the message to the other workers.
fn tell_off(rt: &Runtime) -> mpi::Result<()> {
    let world = world::get(rt);
    let me = world::worker(rt);
    let state = &mut *schedule::state(rt);
    let to = peers_of(me, world.worker_count).map(|rank| Peer {
        comm: world.private,
        rank,
        tag: tag::OFF,
    });
    state
        .told
        .send(state.anywhere.agreement.off().to_ne_bytes(), to)
}

/// Receives messages from workers that continue.
fn hear(rt: &Runtime) -> mpi::Result<()> {
    loop {
        schedule::state(rt).told.sweep()?;
        let Some((_, bytes)) = own_messages::next(world::private(rt), tag::OFF)? else {
            return Ok(());
        };
        let attempt = u64::from_ne_bytes(bytes.try_into().map_err(|_| mpi::Error::INTERN)?);
        let is_news = schedule::state(rt).anywhere.agreement.hears(attempt);
        if is_news {
            tell_off(rt)?;
        }
    }
}
