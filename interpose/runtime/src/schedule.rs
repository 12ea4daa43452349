//! When the next cut is: what [`crate::cut`] counts and remembers, part of which is saved with a cut.

mod job_pace;

use crate::attention::{self, AGREEING, ASKED};
use crate::cell::{Field, runtime};
use crate::generated::MAY_WAIT;
use crate::own_messages::{Lent, Told};
use crate::rounds::Rounds;
use crate::{arch, marks};
use job_pace::JobPace;
use std::cell::RefMut;
use std::time::{Duration, Instant};
use understudy_mpi::real_types::RealRequest;
pub use understudy_policy::agreement::{Agreement, May};
pub use understudy_policy::assembly::{Assemblies, Other, Side, Word as AssemblyWord};
pub use understudy_policy::gathering::Gatherings;
pub use understudy_policy::pace::Failures;
use understudy_policy::pace::Terms;

runtime! {
    pub struct Runtime: marks::Runtime {
        /// Where the program is, and when cuts are due.
        schedule: Field<State> = Field::new(State::of(START)),
    }
}

/// The part of the state that belongs to the program's time line and is saved with a cut.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Schedule {
    /// Candidates passed since MPI_Init.
    pub candidates: u64,
    /// The candidate at which the next decision falls.
    pub next: u64,
    /// Candidates from one decision to the next.
    pub stride: u64,
    /// A cut was put off and is to be taken at the next candidate.
    pub overdue: bool,
    /// Whether the cut is a candidate.
    pub at_candidate: bool,
}

/// The votes of an agreement on a cut at any call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    Gather,
    /// All have stood still.
    Stand,
    Confirm,
}

impl Vote {
    /// The one that follows.
    pub fn next(self) -> Vote {
        match self {
            Vote::Gather => Vote::Stand,
            Vote::Stand | Vote::Confirm => Vote::Confirm,
        }
    }
}

/// The agreement on a cut at any call.
pub struct Anywhere {
    pub agreement: Agreement,
    /// The vote under way.
    pub vote: Option<Rounds>,
    /// Which one that is.
    pub which: Vote,
    /// Terms of the pace, as the first vote has found them.
    pub terms: Terms,
    /// Attempts that have followed each other at once.
    pub tries: u32,
    /// How long the entry of a collective waits in this vote, and how many more may wait as long.
    pub waits_until: Option<Instant>,
    pub holds: u32,
    /// Since when this worker may have stood still in this attempt, how long it does, and whether it has given up.
    pub stood_since: Option<Instant>,
    pub stands: Duration,
    pub has_given_up: bool,
}

impl Anywhere {
    /// There was none.
    pub const NONE: Anywhere = Anywhere {
        agreement: Agreement::NONE,
        vote: None,
        which: Vote::Gather,
        terms: [0; 2],
        tries: 0,
        waits_until: None,
        holds: 0,
        stood_since: None,
        stands: Duration::from_secs(1),
        has_given_up: false,
    };
}

/// A word on a collective that is under way, of the thread with this control block.
pub struct Word {
    pub thread: usize,
    /// This process's word, and the least of all members.
    pub numbers: Lent<Box<[u64; 2]>>,
    pub request: RealRequest,
}

/// What the next cut follows from.
pub struct State {
    /// What is saved of it.
    pub schedule: Schedule,
    /// The first candidate at which something is to be done: the next decision, or every one while a vote needs help.
    pub wake: u64,
    /// The vote that the next decision looks at: is anybody's interval over, and how long does a candidate take?
    pub vote: Option<Rounds>,
    /// Time of the last cut that was taken or refused.
    pub last: Option<Instant>,
    /// Number of intervals in succession at which a worker has refused the cut.
    pub refusals: u32,
    /// When the last decision was made, to measure the time between candidates.
    pub decided: Option<(Instant, u64)>,
    /// The next candidate is the call at which the program was rewound: it was a cut already.
    pub resumed: bool,
    /// Cost of checkpoints here, and the interval that follows from their cost anywhere.
    pub pace: JobPace,
    /// For how long the last checkpoint has kept the program.
    pub cost: Duration,
    /// How often the program has said that it wants no cut, and has not taken that back. 0 at every cut but the first.
    pub held: u32,
    /// The agreement on a cut at any call.
    pub anywhere: Anywhere,
    /// The collectives that threads are at the entry of, where several call MPI at the same time.
    pub gatherings: Gatherings,
    pub words: Vec<Word>,
    /// The constructors that threads are at the entry of, which no communicator of all their processes is for.
    pub assemblies: Assemblies,
    /// What others are being told of all this.
    pub told: Told,
}

impl State {
    /// Nothing is known but the schedule.
    const fn of(schedule: Schedule) -> State {
        State {
            schedule,
            wake: 0,
            vote: None,
            last: None,
            refusals: 0,
            decided: None,
            resumed: false,
            pace: JobPace::START,
            cost: Duration::ZERO,
            held: 0,
            anywhere: Anywhere::NONE,
            gatherings: Gatherings::NONE,
            words: Vec::new(),
            assemblies: Assemblies::NONE,
            told: Told::NONE,
        }
    }
}

const START: Schedule = Schedule {
    candidates: 0,
    next: 1,
    stride: 1,
    overdue: false,
    at_candidate: true,
};

/// What is counted and remembered.
#[inline]
#[track_caller]
pub fn state(rt: &Runtime) -> RefMut<'_, State> {
    rt.schedule.borrow_mut()
}

/// The schedule, to be saved.
pub fn schedule(rt: &Runtime) -> Schedule {
    rt.schedule.borrow().schedule
}

/// Goes on from a saved schedule. `at_call`: the call that is made next is the cut itself. The votes that were under
/// way have died with their communicator.
pub fn restore(rt: &Runtime, schedule: Schedule, at_call: bool) {
    let (pace, cost) = {
        let mut before = rt.schedule.borrow_mut();
        let pace = std::mem::replace(&mut before.pace, JobPace::START);
        (pace.after_recovery(), before.cost)
    };
    rt.schedule.set(State {
        last: Some(Instant::now()),
        resumed: at_call && schedule.at_candidate,
        pace,
        cost,
        ..State::of(schedule)
    });
    attention::clear(ASKED | AGREEING);
    arch::undivert(&MAY_WAIT);
}
