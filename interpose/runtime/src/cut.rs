//! Cuts: moments that all workers agree on.
//!
//! A candidate is the entry of a collective over all workers; every worker passes the same candidates in the same order.
//! With an interval in calls every n-th candidate is a cut. With an interval in time, a vote ([`crate::rounds`]) tells
//! all workers whether one is due; its result is looked at a fixed number of candidates after it was started, so that
//! all look at the same one, and nobody waits for it. With `auto` the interval itself follows from the vote.

mod anywhere;
mod assemble;
mod shortage;
mod together;

use crate::arch::{self, Rewound, turn};
use crate::drain::{Ability, Exchange};
use crate::handles::VirtComm;
use crate::objects::tool::written;
use crate::objects::{comm, file, window};
use crate::own_messages::tag;
use crate::recovery::Runtime;
use crate::rehearsal::again;
use crate::requests::{self, Kind};
use crate::rounds::{Numbers, Rounds};
use crate::schedule::Schedule;
use crate::{
    checkpoint, completion, copies, drain, ending, errors, fault, headroom, journal, marks,
    overdue, protection, recovery, rehearsal, schedule, told, user, world,
};
pub use anywhere::{here, hold, leave_by_call, meanwhile, part};
pub use assemble::assemble;
use std::ffi::c_int;
use std::time::Instant;
pub use together::together;
use understudy_mpi as mpi;
use understudy_settings::Interval;

/// More candidates than this are never passed without a vote: after a burst of quick ones (a program's start) slow ones
/// may follow, and the next cut should not have to wait for many of those.
const MAX_STRIDE: u64 = 32;
/// While an initialisation phase is recorded anywhere, which should end soon after its worker wants that.
const PHASE_STRIDE: u64 = 2;

/// What a vote that fails means.
const NO_VOTE: &str = "the workers cannot agree on a cut";
/// What it means if the windows cannot be brought to rest.
const NO_QUIET: &str = "the operations on windows do not end";

/// What a worker says in a vote; the greatest counts.
const RECORDS: i64 = 1;
const IS_DUE: i64 = 2;
const HOLDS: i64 = 4;

/// At the end: all workers have passed the same candidates, so the same vote is under way everywhere.
pub fn finish(rt: &Runtime) -> Result<(), Rewound> {
    overdue::end();
    anywhere::finish(rt);
    while schedule::state(rt).vote.is_some() {
        if help(rt)?.is_some() {
            schedule::state(rt).vote = None;
        }
    }
    Ok(())
}

/// The entry of a collective.
#[inline]
pub fn collective(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    together::come_together(rt, comm)?;
    if comm::spans_all(rt, comm) {
        pass(rt)?;
    } else {
        anywhere::hold(rt)?;
        // Only an agreement on a cut at any call asks how many there were.
        if told::config().anywhere {
            comm::count_collective(rt, comm);
        }
    }
    arch::will_block();
    Ok(())
}

/// A blocking collective has failed. If it is for its arguments it has met nobody: others count it when it is called rightly.
#[cold]
pub fn withdraw(rt: &Runtime, comm: VirtComm, rc: c_int) {
    let of_arguments = |error: mpi::Error| errors::is_of_arguments(error.class());
    if !mpi::check(rc).is_err_and(of_arguments) {
        return;
    }
    if comm::spans_all(rt, comm) {
        schedule::state(rt).schedule.candidates -= 1;
    } else if told::config().anywhere {
        comm::discount_collective(rt, comm);
    }
}

/// A point that the program names in all workers.
pub fn point(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    together::all_together(rt)?;
    pass(rt)
}

/// The same where the program wants a cut.
pub fn wanted(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    together::all_together(rt)?;
    let mut state = schedule::state(rt);
    if !state.resumed {
        state.schedule.overdue = true;
        state.schedule.next = state.schedule.candidates + 1;
        state.wake = 0;
    }
    drop(state);
    pass(rt)
}

/// A candidate, where this worker may wait for all others: none of them is to stand still before it.
#[inline]
fn pass(rt: &Runtime) -> Result<(), Rewound> {
    anywhere::leave(rt)?;
    candidate(rt)?;
    marks::pass(rt);
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
    if state.schedule.candidates < state.wake {
        Ok(())
    } else {
        drop(state);
        awake(rt)
    }
}

/// A candidate at which something is to be done.
#[cold]
fn awake(rt: &Runtime) -> Result<(), Rewound> {
    let Schedule {
        candidates, next, ..
    } = schedule::schedule(rt);
    if candidates >= next {
        decide(rt)?;
    } else {
        help(rt)?;
    }
    let mut state = schedule::state(rt);
    let needs_help = state.vote.as_ref().is_some_and(Rounds::needs_help);
    state.wake = if needs_help { 0 } else { state.schedule.next };
    Ok(())
}

fn decide(rt: &Runtime) -> Result<(), Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    let overdue = std::mem::take(&mut schedule::state(rt).schedule.overdue);
    match crate::told::config().interval {
        Interval::Off => {
            schedule::state(rt).schedule.next = u64::MAX;
            if overdue {
                return take(rt);
            }
        }
        Interval::Calls(calls) => {
            let mut state = schedule::state(rt);
            let candidates = state.schedule.candidates;
            state.schedule.next = (candidates / calls + 1) * calls;
            drop(state);
            if overdue || candidates.is_multiple_of(calls) {
                return take(rt);
            }
        }
        Interval::Time(_) | Interval::Auto => {
            if !copies::is_pending() {
                rehearsal::poll(rt);
            }
            let due = tally(rt)? || overdue;
            {
                let schedule = &mut schedule::state(rt).schedule;
                schedule.next = schedule.candidates + schedule.stride;
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

/// Starts the vote that the next decision will look at.
fn vote(rt: &Runtime) -> Result<(), Rewound> {
    let mut guard = schedule::state(rt);
    let state = &mut *guard;
    let interval = state.pace.interval();
    let now = Instant::now();
    let is_over = state
        .last
        .is_some_and(|last| now.duration_since(last) >= interval);
    let is_due = is_over
        || state.pace.is_warned(state.last)
        || headroom::has_given_up()
        || journal::asks_for_cut(rt)
        || again::asks_for_cut(rt);
    let says = [
        (state.held > 0, HOLDS),
        (is_due, IS_DUE),
        (journal::is_recording(rt), RECORDS),
    ];
    let says: i64 = says
        .iter()
        .map(|&(says, what)| i64::from(says) * what)
        .sum();
    let before = state.decided.replace((now, state.schedule.candidates));
    let since = |(then, at): (Instant, u64)| {
        now.duration_since(then) / (state.schedule.candidates - at).max(1) as u32
    };
    let per_candidate = before.map_or(interval, since).as_nanos() as i64;
    let [cost, rate] = state.pace.terms();
    let (world, numbers) = (world::get(rt), [says, per_candidate, cost, rate]);
    drop(guard);
    let vote = Rounds::new(
        world.private,
        tag::VOTE,
        (world::worker(rt), world.worker_count),
        numbers,
    );
    let started = schedule::state(rt).vote.insert(vote).start();
    recovery::check_own(rt, started, NO_VOTE)
}

/// Helps the vote along; what came of it, if it has ended.
fn help(rt: &Runtime) -> Result<Option<Numbers>, Rewound> {
    let polled = schedule::state(rt).vote.as_mut().map(Rounds::poll);
    recovery::check_own(rt, polled.unwrap_or(Ok(None)), NO_VOTE)
}

/// Looks at the vote; the same candidate in every worker. Also sets the stride, from the slowest worker's time, and the
/// pace, from the costliest one's.
fn tally(rt: &Runtime) -> Result<bool, Rewound> {
    let [said, per_candidate, cost, rate] = loop {
        if schedule::state(rt).vote.is_none() {
            return Ok(false);
        }
        if let Some(numbers) = help(rt)? {
            break numbers;
        }
    };
    let state = &mut *schedule::state(rt);
    state.vote = None;
    // A vote every fiftieth of the interval is precise enough, and rare enough.
    let apart = state.pace.agree([cost, rate]).as_nanos() as i64 / 50;
    let wanted = (apart / per_candidate.max(1)).max(1) as u64;
    let most = if said & RECORDS != 0 {
        PHASE_STRIDE
    } else {
        MAX_STRIDE
    };
    state.schedule.stride = wanted.min(2 * state.schedule.stride).min(most);
    Ok(said & IS_DUE != 0 && said & HOLDS == 0)
}

/// Whether a cut would be taken here even if nothing but the interval were looked at.
fn is_regular(rt: &Runtime) -> bool {
    match crate::told::config().interval {
        Interval::Time(_) | Interval::Auto => {
            let state = schedule::state(rt);
            let interval = state.pace.interval();
            state.last.is_none_or(|last| last.elapsed() >= interval)
        }
        Interval::Calls(_) | Interval::Off => true,
    }
}

/// Takes a cut here and starts its checkpoint.
pub fn take(rt: &Runtime) -> Result<(), Rewound> {
    take_at(rt, true)
}

/// The same at a candidate, or wherever the workers are.
fn take_at(rt: &Runtime, candidate: bool) -> Result<(), Rewound> {
    turn::settle();
    checkpoint::finish(rt)?;
    fault::point("cut.begin", copies::next_epoch(rt));
    rehearsal::poll(rt);
    completion::reap_orphans(rt)?;
    let are_even = recovery::check_own(rt, window::quiesce(rt), NO_QUIET)?;
    let (ability, objection) = ability(rt, are_even)?;
    let exchanged = drain::exchange(rt, ability, candidate.then(|| is_regular(rt)))?;
    if !matches!(exchanged, Exchange::InFlight(_)) {
        user::let_threads_go(rt);
        recovery::devices_go_on(rt);
    }
    match exchanged {
        Exchange::InFlight(sent) => {
            fault::point("cut.agreed", copies::next_epoch(rt));
            schedule::state(rt).schedule.at_candidate = candidate;
            user::note_files(rt);
            if let Err(error) = file::note(rt) {
                ending::fail(rt, "the program's files cannot be saved", &error);
            }
            drain::drain(rt, &sent)?;
            fault::point("cut.end", copies::next_epoch(rt));
            let (began, epoch) = (Instant::now(), copies::next_epoch(rt));
            checkpoint::take(rt)?;
            recovery::check_own(rt, window::meet_again(rt), NO_QUIET)?;
            {
                let mut state = schedule::state(rt);
                state.cost = began.elapsed();
                let cost = state.cost;
                state.pace.measure(cost);
                state.last = Some(Instant::now());
                state.refusals = 0;
            }
            overdue::begin(rt, epoch, world::worker(rt), world::get(rt).process);
        }
        Exchange::PutOff => {
            log::debug!(
                "a collective is under way somewhere, a library is being opened, spawned processes are connected, a communicator \
                 was made before a control variable was written, or the program wants none: the cut is put off"
            );
            if candidate {
                let schedule = &mut schedule::state(rt).schedule;
                schedule.next = schedule.candidates + 1;
                schedule.overdue = true;
            }
            overdue::put_off(comm::is_any_connected(rt));
        }
        Exchange::NoRoom(shortage) => shortage::skip(rt, &shortage),
        Exchange::Refused => {
            let mut state = schedule::state(rt);
            state.refusals += 1;
            state.last = Some(Instant::now());
            drop(state);
            overdue::refused(candidate);
        }
        Exchange::Unprotected(speaker, loss) => {
            if speaker == world::worker(rt)
                && let Some(why) = objection
            {
                protection::say_refused(&why, loss);
            }
            overdue::end();
            protection::give_up_protection(rt, loss);
        }
    }
    Ok(())
}

/// Number of intervals in succession at which cuts are refused before protection is given up.
const MAX_REFUSALS: u32 = 10;

/// Returns the ability of a rank whose kernel state cannot be restored.
fn refusal(rt: &Runtime, why: &user::UserError) -> (Ability, Option<String>) {
    log::info!("no checkpoint at this interval: {why}");
    if schedule::state(rt).refusals + 1 < MAX_REFUSALS {
        return (Ability::Refused, None);
    }
    let message = format!(
        "{why}; no checkpoint of rank {} was possible at {MAX_REFUSALS} intervals",
        world::worker(rt)
    );
    (Ability::Never, Some(message))
}

/// Whether this rank can be saved here, where windows are as even as this, and what stands in the way for good.
fn ability(rt: &Runtime, are_even: bool) -> Result<(Ability, Option<String>), Rewound> {
    if let Err(why) = user::check(rt) {
        return Ok((Ability::Never, Some(why.to_string())));
    }
    if let Some(why) = shortage::lost_copies() {
        return Ok((Ability::Yielded, Some(why)));
    }
    let collectives = completion::test_all(
        rt,
        requests::active(rt, |kind| {
            matches!(
                kind,
                Kind::Collective(_) | Kind::OneSided | Kind::Duplicate(_) | Kind::Recorded(_)
            )
        }),
    )?;
    let is_held = schedule::state(rt).held > 0;
    let is_callback = arch::top_frame().is_none();
    let is_open = !collectives.is_empty()
        || requests::is_any_unready(rt)
        || !are_even
        || !file::have_names(rt)
        || !written::check_communicators(rt);
    let is_able =
        !is_open && !user::is_loading() && !is_held && !is_callback && !comm::is_any_connected(rt);
    let reports = world::is_playing() && world::is_first_worker(rt);
    let is_saved = match is_able.then(|| user::save_devices(rt, reports)) {
        None => false,
        Some(Ok(is_saved)) => is_saved,
        Some(Err(lost @ user::UserError::DeviceLost(_))) => recovery::lose_devices(rt, &lost),
        Some(Err(why)) => return Ok((Ability::Never, Some(why.to_string()))),
    };
    if !is_saved || !user::stop_threads(rt) {
        return Ok((Ability::Later, None));
    }
    Ok(match user::check_kernel_state(rt) {
        Ok(()) => (Ability::Now, None),
        Err(why) => refusal(rt, &why),
    })
}
