//! Cuts: moments that all workers agree on.
//!
//! A candidate is the entry of a collective over all workers; every worker passes the same candidates in the same order.
//! With an interval in calls every n-th candidate is a cut. With an interval in time, a tiny non-blocking reduction tells
//! all workers whether one is due; its result is looked at a fixed number of candidates after it was started, so that
//! all look at the same one, and nobody waits for it.
#![allow(unsafe_code)]

use crate::cell::Main;
use crate::config::Interval;
use crate::drain::{Ability, Exchange};
use crate::generated::real;
use crate::handles::{self, VirtComm, VirtDatatype, VirtOp, real_datatype, real_op};
use crate::objects::comm;
use crate::real_types::RealRequest;
use crate::recovery::{self, Rewound};
use crate::requests::{self, Kind};
use crate::{checkpoint, drain, fault, user, world};
use std::ffi::c_int;
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
    /// The reduction that the next decision looks at.
    vote: Option<Vote>,
    /// When the last cut was taken.
    last: Option<Instant>,
    /// When the last decision was made, to measure the time between candidates.
    decided: Option<(Instant, u64)>,
    /// The next candidate is the call at which the program was rewound: it was a cut already.
    resumed: bool,
}

/// A vote under way: the reduction's buffers must not move.
struct Vote {
    request: RealRequest,
    numbers: Box<([i64; 2], [i64; 2])>,
}

const START: Schedule = Schedule {
    candidates: 0,
    next: 1,
    stride: 1,
    overdue: false,
};

static STATE: Main<State> = Main::new(State {
    schedule: START,
    vote: None,
    last: None,
    decided: None,
    resumed: false,
});

/// More candidates than this are never passed without a vote: after a burst of quick ones (a program's start) slow ones
/// may follow, and the next cut should not have to wait for many of those.
const MAX_STRIDE: u64 = 32;

/// The schedule, to be saved.
pub fn schedule() -> Schedule {
    STATE.get().schedule
}

/// Goes on from a saved schedule. `at_candidate`: the call that is made next is the cut itself. The vote that was under
/// way has died with its communicator.
pub fn restore(schedule: Schedule, at_candidate: bool) {
    *STATE.get() = State {
        schedule,
        vote: None,
        last: Some(Instant::now()),
        decided: None,
        resumed: at_candidate,
    };
}

/// Forgets a vote that is under way, before its communicator is revoked. Returns its request.
pub fn abandon_vote() -> Option<RealRequest> {
    let vote = STATE.get().vote.take()?;
    let request = vote.request;
    // The library may still write into the numbers: they are given up.
    std::mem::forget(vote.numbers);
    Some(request)
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
    if state.schedule.candidates < state.schedule.next {
        Ok(())
    } else {
        decide()
    }
}

#[cold]
fn decide() -> Result<(), Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    let state = STATE.get();
    match crate::boot::config().interval {
        Interval::Off => state.schedule.next = u64::MAX,
        Interval::Calls(calls) => {
            let candidates = state.schedule.candidates;
            state.schedule.next = (candidates / calls + 1) * calls;
            let overdue = std::mem::take(&mut state.schedule.overdue);
            if overdue || candidates.is_multiple_of(calls) {
                return take();
            }
        }
        Interval::Time(interval) => {
            let due = tally(interval)? || std::mem::take(&mut STATE.get().schedule.overdue);
            let state = STATE.get();
            state.schedule.next = state.schedule.candidates + state.schedule.stride;
            if due {
                take()?;
            }
            return vote(interval);
        }
    }
    Ok(())
}

/// Starts the reduction that the next decision will look at.
fn vote(interval: Duration) -> Result<(), Rewound> {
    let state = STATE.get();
    let now = Instant::now();
    let due = state.last.is_some_and(|last| now.duration_since(last) >= interval);
    let before = state.decided.replace((now, state.schedule.candidates));
    let since = |(then, at): (Instant, u64)| now.duration_since(then) / (state.schedule.candidates - at).max(1) as u32;
    let per_candidate = before.map_or(interval, since).as_nanos() as i64;
    let mut vote = Vote {
        request: RealRequest(std::ptr::null_mut()),
        numbers: Box::new(([i64::from(due), per_candidate], [0; 2])),
    };
    let max = real_op(VirtOp(handles::predefined_handle("ompi_mpi_op_max")));
    let int64 = real_datatype(VirtDatatype(handles::predefined_handle("ompi_mpi_int64_t")));
    let (own, all) = &mut *vote.numbers;
    // SAFETY: the numbers live in a box that is kept until the request has ended.
    let rc = unsafe {
        let (own, all) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        real::PMPI_Iallreduce(own, all, 2, int64, max, world::private(), &mut vote.request)
    };
    state.vote = Some(vote);
    recovery::check(rc)?;
    Ok(())
}

/// Looks at the vote; the same candidate in every worker. Also sets the stride, from the slowest worker's time.
fn tally(interval: Duration) -> Result<bool, Rewound> {
    loop {
        let Some(vote) = &mut STATE.get().vote else {
            return Ok(false);
        };
        let mut flag: c_int = 0;
        // SAFETY: the vote's own request.
        recovery::check(unsafe { real::PMPI_Test(&mut vote.request, &mut flag, std::ptr::null_mut()) })?;
        if flag != 0 {
            break;
        }
    }
    let state = STATE.get();
    let Some(vote) = state.vote.take() else {
        return Ok(false);
    };
    let [due, per_candidate] = vote.numbers.1;
    // A vote every fiftieth of the interval is precise enough, and rare enough.
    let apart = interval.as_nanos() as i64 / 50;
    let wanted = (apart / per_candidate.max(1)).max(1) as u64;
    state.schedule.stride = wanted.min(2 * state.schedule.stride).min(MAX_STRIDE);
    Ok(due != 0)
}

/// Takes a cut here and starts its checkpoint.
pub fn take() -> Result<(), Rewound> {
    fault::point("cut.begin", checkpoint::next_epoch());
    checkpoint::finish()?;
    requests::reap_orphans()?;
    match drain::exchange(ability()?)? {
        Exchange::InFlight(in_flight) => {
            drain::drain(&in_flight)?;
            fault::point("cut.end", checkpoint::next_epoch());
            checkpoint::take()?;
            STATE.get().last = Some(Instant::now());
        }
        Exchange::PutOff => {
            log::debug!("a non-blocking collective is under way somewhere, the cut is put off");
            let state = STATE.get();
            state.schedule.next = state.schedule.candidates + 1;
            state.schedule.overdue = true;
        }
        Exchange::Unprotected => world::give_up_protection(),
    }
    Ok(())
}

/// Whether this rank can be saved here. What stands in the way for good is said once.
fn ability() -> Result<Ability, Rewound> {
    if let Err(why) = user::check() {
        world::say_refused(&why.to_string());
        return Ok(Ability::Never);
    }
    let collectives = requests::test_all(requests::active(|kind| matches!(kind, Kind::Collective)))?;
    Ok(if collectives.is_empty() {
        Ability::Now
    } else {
        Ability::Later
    })
}
