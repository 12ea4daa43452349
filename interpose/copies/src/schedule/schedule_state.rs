//! State from which the next cut follows.

use super::anywhere_agreement::Anywhere;
use super::job_pace::JobPace;
use crate::cell::Field;
use crate::own_messages::{Lent, Told};
use crate::rounds::Rounds;
use std::time::{Duration, Instant};
use understudy_mpi::real_types::RealRequest;
use understudy_policy::assembly::Assemblies;
use understudy_policy::gathering::Gatherings;

/// Part of the schedule that belongs to the program's time line; saved with a cut.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Schedule {
    /// Number of cut points passed since MPI_Init.
    pub candidates: u64,
    /// Cut point of the next decision.
    pub next: u64,
    /// Number of cut points from one decision to the next.
    pub stride: u64,
    /// True if a cut was postponed to the next cut point.
    pub overdue: bool,
    /// True if the cut is at a cut point.
    pub at_candidate: bool,
}

/// Position of the program, and the time at which cuts are due.
pub struct ScheduleState {
    pub(super) state: Field<State>,
}

impl ScheduleState {
    /// State at the start of the process.
    pub const fn start() -> ScheduleState {
        ScheduleState {
            state: Field::new(State::of(START)),
        }
    }
}

/// Vote on a collective, of the thread with this control block, that is under way.
pub struct Word {
    pub thread: usize,
    /// This process's vote, and the minimum of all members.
    pub numbers: Lent<Box<[u64; 2]>>,
    pub request: RealRequest,
}

/// State from which the next cut follows.
pub struct State {
    /// Part that is saved.
    pub schedule: Schedule,
    /// First cut point that requires an action.
    ///
    /// This is the next decision, or every cut point while a vote needs help.
    pub wake: u64,
    /// Vote for the next decision: end of the interval, and time of a cut point.
    pub vote: Option<Rounds>,
    /// Time of the last cut that was taken or refused.
    pub last: Option<Instant>,
    /// Number of successive intervals in which a worker has refused the cut.
    pub refusals: u32,
    /// Time and cut point of the last decision, to measure the time per cut point.
    pub decided: Option<(Instant, u64)>,
    /// True if the next cut point is the call to which the program was rewound.
    ///
    /// It was a cut already.
    pub resumed: bool,
    /// Cost of checkpoints here, and the interval that follows from the maximum cost.
    pub pace: JobPace,
    /// Time for which the last checkpoint has paused the program.
    pub cost: Duration,
    /// Nesting depth of `understudy_hold`; cuts are inhibited while it is positive.
    ///
    /// Zero at every cut except the first.
    pub held: u32,
    /// Agreement on a cut at any call.
    pub anywhere: Anywhere,
    /// Collectives at whose entries threads are, if several call MPI concurrently.
    pub gatherings: Gatherings,
    pub words: Vec<Word>,
    /// Constructors at whose entries threads are, without a communicator of all their processes.
    pub assemblies: Assemblies,
    /// Control messages in flight.
    pub told: Told,
}

impl State {
    /// Returns the state with this schedule, and nothing else.
    pub(super) const fn of(schedule: Schedule) -> State {
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

/// The schedule at the start of the process.
const START: Schedule = Schedule {
    candidates: 0,
    next: 1,
    stride: 1,
    overdue: false,
    at_candidate: true,
};
