//! Cuts at any call: where candidates are missing for long, workers agree on one wherever they are.
//!
//! [`understudy_policy::agreement::Agreement`] has the rules. A worker stands still at the entry of
//! a call about messages, which has not begun then, or in the wait of one, whose requests are on
//! record: set back to the cut, the program makes the call again, which finds them
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

/// What it means if votes fail.
const NO_AGREEMENT: &str = "the workers cannot agree on a cut";
/// How long entries of collectives wait for the others to look, in one vote: a part of the
/// interval, so much at least, and at most.
const HOLD: (u32, Duration, Duration) = (16, Duration::from_millis(20), Duration::from_millis(200));
/// So many entries may be held so long in one vote: who holds one makes others wait inside, who
/// vote at the next.
const HOLDS: u32 = 4;
/// So many attempts follow each other at once, if nothing stands in the way but that somebody has
/// gone on.
const TRIES: u32 = 6;

/// How long a worker stands still before all have come to a call, since some may wait for it
/// outside of MPI: this part of the interval at least, and twice as long whenever it has given up,
/// at most so long.
const STANDS: (u32, Duration) = (4, Duration::from_secs(64));
/// Who has given up asks for the next attempt after so many times as long.
const PAUSE: u32 = 10;

/// What a worker says in the second and the third vote: it has gone on, or objects for another
/// reason.
const HAS_GONE_ON: i64 = 1;
const OBJECTS: i64 = 2;

/// A call at which a cut may be taken: it has not begun, or its requests are on record, and it has
/// told the program nothing.
#[inline(always)]
pub fn here(rt: &Runtime) -> Result<(), Rewound> {
    if attention::is_on() { look(rt) } else { Ok(()) }
}

/// The same between two looks at what this call waits for: it gives way to other threads.
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

/// Looks whether something is to be done; takes the cut if there is one to take.
#[cold]
#[inline(never)]
pub(super) fn look(rt: &Runtime) -> Result<(), Rewound> {
    checkpoint::poll(rt)?;
    if is_asked() {
        while step(rt)? == May::Stand {}
    }
    Ok(())
}

/// Whether this worker is to take part.
fn is_asked() -> bool {
    attention::is(ASKED | AGREEING) && arch::top_frame().is_some() && world::is_protected()
}

/// The entry of a call that waits for what some other workers' programs do and cannot be left
/// half-way, such as a collective over some of them or a lock. It waits for a while until all look,
/// as it could not stand still inside.
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

/// This is another entry than the one at which the time was over.
fn hold_again(rt: &Runtime) {
    let state = &mut *schedule::state(rt);
    let (now, hold) = (Instant::now(), hold_for(state));
    let anywhere = &mut state.anywhere;
    if anywhere.holds > 0 && anywhere.waits_until.is_some_and(|end| end <= now) {
        anywhere.holds -= 1;
        anywhere.waits_until = Some(now + hold);
    }
}

/// How long an entry is held.
fn hold_for(state: &State) -> Duration {
    (state.pace.interval() / HOLD.0).clamp(HOLD.1, HOLD.2)
}

/// This worker enters what it cannot leave half-way: nobody is to stand still before it has come
/// out.
pub fn leave(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, go_on(rt), NO_AGREEMENT)
}

/// The same where nothing can be done about a failure: at the end of this process.
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

/// [`leave`], from the entries of such calls; whether the program was rewound.
pub extern "C" fn leave_by_call() -> bool {
    leave(DOOR.get()).is_err()
}

/// There will be no more cuts.
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

/// Goes as far as it can; takes the cut if there is one to take.
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

/// How long this worker stands still: longer, if it has given up before, and for a part of the
/// interval at least.
fn stands_for(state: &State) -> Duration {
    state.anywhere.stands.max(state.pace.interval() / STANDS.0)
}

/// Whether this worker gives up, as it has stood still for as long as it does.
fn has_stood_long(rt: &Runtime) -> bool {
    let state = &mut *schedule::state(rt);
    let stands = stands_for(state);
    let anywhere = &mut state.anywhere;
    let is_long = |since: Instant| since.elapsed() >= stands;
    let gives_up = anywhere.agreement.may_give_up() && anywhere.stood_since.is_some_and(is_long);
    anywhere.has_given_up |= gives_up;
    gives_up
}

/// What this worker has against a cut outside of candidates.
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
    // Whether another attempt may follow at once.
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
        // Of the first vote the second number is a cost, and the fourth a rate.
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
            // Where some have passed more candidates than others, something of a collective is on
            // its way.
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
            // All have passed the same candidates, as the pace says how far apart votes are.
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

/// Tells others that somebody goes on in the present attempt, or in the last one that is known of;
/// they tell the rest.
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

/// Hears of those who go on.
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
