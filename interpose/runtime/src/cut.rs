//! Cuts: moments that all workers agree on.
//!
//! A candidate is the entry of a collective over all workers; every worker passes the same candidates in the same order.
//! With an interval in calls every n-th candidate is a cut. With an interval in time, a vote ([`crate::rounds`]) tells
//! all workers whether one is due; its result is looked at a fixed number of candidates after it was started, so that
//! all look at the same one, and nobody waits for it. With `auto` the interval itself follows from the vote ([`pace`]).

mod pace;

use crate::arch::Rewound;
use crate::cell::Main;
use crate::config::Interval;
use crate::drain::{Ability, Exchange};
use crate::handles::VirtComm;
use crate::objects::comm;
use crate::own_messages::tag;
use crate::rehearsal::again;
use crate::requests::{self, Kind};
use crate::rounds::{Numbers, Rounds};
use crate::{checkpoint, drain, fault, journal, own_messages, protection, rehearsal, user, world};
use pace::Pace;
use std::time::{Duration, Instant};

/// The part of the state that belongs to the program's time line and is saved with a cut.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Schedule {
    /// Candidates passed since MPI_Init.
    pub candidates: u64,
    /// The candidate at which the next decision falls.
    next: u64,
    /// Candidates from one decision to the next.
    stride: u64,
    /// A cut was put off and is to be taken at the next candidate.
    overdue: bool,
}

struct State {
    schedule: Schedule,
    /// The first candidate at which something is to be done: the next decision, or every one while a vote needs help.
    wake: u64,
    /// The vote that the next decision looks at: is anybody's interval over, and how long does a candidate take?
    vote: Option<Rounds>,
    /// When the last cut was taken.
    last: Option<Instant>,
    /// When the last decision was made, to measure the time between candidates.
    decided: Option<(Instant, u64)>,
    /// The next candidate is the call at which the program was rewound: it was a cut already.
    resumed: bool,
    /// What checkpoints cost here, and what follows from what they cost anywhere.
    pace: Pace,
}

const START: Schedule = Schedule {
    candidates: 0,
    next: 1,
    stride: 1,
    overdue: false,
};

static STATE: Main<State> = Main::new(State {
    schedule: START,
    wake: 0,
    vote: None,
    last: None,
    decided: None,
    resumed: false,
    pace: Pace::START,
});

/// More candidates than this are never passed without a vote: after a burst of quick ones (a program's start) slow ones
/// may follow, and the next cut should not have to wait for many of those.
const MAX_STRIDE: u64 = 32;
/// While an initialisation phase is recorded anywhere, which should end soon after its worker wants that.
const PHASE_STRIDE: u64 = 2;

/// What a worker says in a vote; the greatest counts.
const RECORDS: i64 = 1;
const IS_DUE: i64 = 2;

/// The schedule, to be saved.
pub fn schedule() -> Schedule {
    STATE.get().schedule
}

/// Goes on from a saved schedule. `at_candidate`: the call that is made next is the cut itself. The vote that was under
/// way has died with its communicator.
pub fn restore(schedule: Schedule, at_candidate: bool) {
    let state = STATE.get();
    *state = State {
        schedule,
        wake: 0,
        vote: None,
        last: Some(Instant::now()),
        decided: None,
        resumed: at_candidate,
        pace: state.pace.after_recovery(),
    };
}

/// After a failure: ends the vote that is under way. Returns how many messages could not be ended within `limit`.
pub fn quiesce(limit: Duration) -> usize {
    STATE.get().vote.take().map_or(0, |mut vote| vote.quiesce(limit))
}

/// At the end: all workers have passed the same candidates, so the same vote is under way everywhere.
pub fn finish() -> Result<(), Rewound> {
    while STATE.get().vote.is_some() {
        if help()?.is_some() {
            STATE.get().vote = None;
        }
    }
    Ok(())
}

/// The entry of a collective.
#[inline]
pub fn collective(comm: VirtComm) -> Result<(), Rewound> {
    checkpoint::poll()?;
    if comm::spans_all(comm) { candidate() } else { Ok(()) }
}

#[inline]
fn candidate() -> Result<(), Rewound> {
    let state = STATE.get();
    if state.resumed {
        state.resumed = false;
        return Ok(());
    }
    state.schedule.candidates += 1;
    if state.schedule.candidates < state.wake {
        Ok(())
    } else {
        awake()
    }
}

/// A candidate at which something is to be done.
#[cold]
fn awake() -> Result<(), Rewound> {
    let state = STATE.get();
    if state.schedule.candidates >= state.schedule.next {
        decide()?;
    } else {
        help()?;
    }
    let state = STATE.get();
    let needs_help = state.vote.as_ref().is_some_and(Rounds::needs_help);
    state.wake = if needs_help { 0 } else { state.schedule.next };
    Ok(())
}

fn decide() -> Result<(), Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    let state = STATE.get();
    match crate::told::config().interval {
        Interval::Off => state.schedule.next = u64::MAX,
        Interval::Calls(calls) => {
            let candidates = state.schedule.candidates;
            state.schedule.next = (candidates / calls + 1) * calls;
            let overdue = std::mem::take(&mut state.schedule.overdue);
            if overdue || candidates.is_multiple_of(calls) {
                return take();
            }
        }
        Interval::Time(_) | Interval::Auto => {
            if !checkpoint::is_active() {
                rehearsal::poll();
            }
            let due = tally()? || std::mem::take(&mut STATE.get().schedule.overdue);
            let state = STATE.get();
            state.schedule.next = state.schedule.candidates + state.schedule.stride;
            if due {
                take()?;
            }
            if world::is_protected() {
                return vote();
            }
        }
    }
    Ok(())
}

/// Starts the vote that the next decision will look at.
fn vote() -> Result<(), Rewound> {
    let state = STATE.get();
    let interval = state.pace.interval();
    let now = Instant::now();
    let is_over = state.last.is_some_and(|last| now.duration_since(last) >= interval);
    let is_due = is_over || journal::asks_for_cut() || again::asks_for_cut();
    let says = i64::from(is_due) * IS_DUE + i64::from(journal::is_recording()) * RECORDS;
    let before = state.decided.replace((now, state.schedule.candidates));
    let since = |(then, at): (Instant, u64)| now.duration_since(then) / (state.schedule.candidates - at).max(1) as u32;
    let per_candidate = before.map_or(interval, since).as_nanos() as i64;
    let (world, numbers) = (world::get(), [says, per_candidate, state.pace.cost_ns()]);
    let (vote, rc) = Rounds::start(world.private, tag::VOTE, (world::worker(), world.worker_count), numbers);
    state.vote = Some(vote);
    own_messages::check(rc, "the workers cannot agree on a cut")
}

/// Helps the vote along; what came of it, if it has ended.
fn help() -> Result<Option<Numbers>, Rewound> {
    let Some(vote) = &mut STATE.get().vote else {
        return Ok(None);
    };
    match vote.poll() {
        Ok(numbers) => Ok(numbers),
        Err(rc) => own_messages::check(rc, "the workers cannot agree on a cut").map(|()| None),
    }
}

/// Looks at the vote; the same candidate in every worker. Also sets the stride, from the slowest worker's time, and the
/// pace, from the costliest one's.
fn tally() -> Result<bool, Rewound> {
    let [said, per_candidate, cost] = loop {
        if STATE.get().vote.is_none() {
            return Ok(false);
        }
        if let Some(numbers) = help()? {
            break numbers;
        }
    };
    let state = STATE.get();
    state.vote = None;
    // A vote every fiftieth of the interval is precise enough, and rare enough.
    let apart = state.pace.agree(cost).as_nanos() as i64 / 50;
    let wanted = (apart / per_candidate.max(1)).max(1) as u64;
    let most = if said & RECORDS != 0 { PHASE_STRIDE } else { MAX_STRIDE };
    state.schedule.stride = wanted.min(2 * state.schedule.stride).min(most);
    Ok(said & IS_DUE != 0)
}

/// Whether a cut would be taken here even if nothing but the interval were looked at.
fn is_regular() -> bool {
    match crate::told::config().interval {
        Interval::Time(_) | Interval::Auto => {
            let state = STATE.get();
            let interval = state.pace.interval();
            state.last.is_none_or(|last| last.elapsed() >= interval)
        }
        Interval::Calls(_) | Interval::Off => true,
    }
}

/// Takes a cut here and starts its checkpoint.
pub fn take() -> Result<(), Rewound> {
    fault::point("cut.begin", checkpoint::next_epoch());
    checkpoint::finish()?;
    rehearsal::poll();
    requests::reap_orphans()?;
    let (ability, objection) = ability()?;
    match drain::exchange(ability, is_regular())? {
        Exchange::InFlight(in_flight) => {
            drain::drain(&in_flight)?;
            fault::point("cut.end", checkpoint::next_epoch());
            let began = Instant::now();
            checkpoint::take()?;
            let state = STATE.get();
            state.pace.measure(began.elapsed());
            state.last = Some(Instant::now());
        }
        Exchange::PutOff => {
            log::debug!(
                "a non-blocking collective is under way somewhere, or a library is being opened: the cut is put off"
            );
            let state = STATE.get();
            state.schedule.next = state.schedule.candidates + 1;
            state.schedule.overdue = true;
        }
        Exchange::Unprotected(speaker) => {
            if speaker == world::worker()
                && let Some(why) = objection
            {
                protection::say_refused(&why);
            }
            protection::give_up_protection();
        }
    }
    Ok(())
}

/// Whether this rank can be saved here, and what stands in the way for good.
fn ability() -> Result<(Ability, Option<String>), Rewound> {
    if let Err(why) = user::check() {
        return Ok((Ability::Never, Some(why.to_string())));
    }
    let collectives = requests::test_all(requests::active(|kind| matches!(kind, Kind::Collective)))?;
    let ability = if collectives.is_empty() && !user::is_loading() {
        Ability::Now
    } else {
        Ability::Later
    };
    Ok((ability, None))
}
