//! State from which the next cut follows.

use super::anywhere_agreement::AnywhereAgreement;
use super::job_pace::JobPace;
use crate::control_messages::{InFlight, SendQueue};
use crate::max_allreduce::MaxAllreduce;
use crate::runtime_state::StateCell;
use std::time::{Duration, Instant};
use understudy_policy::assembly::Assemblies;
use understudy_policy::candidate_schedule::Schedule;
use understudy_policy::gathering::EntryVotes;

/// Position of the program, and the time at which cuts are due.
pub struct ScheduleState {
    pub(super) state: StateCell<CutState>,
}

impl ScheduleState {
    /// State at the start of the process.
    pub const fn start() -> ScheduleState {
        ScheduleState {
            state: StateCell::new(CutState::with_schedule(Schedule::START)),
        }
    }
}

/// Vote under way on a collective that a thread is about to enter.
pub struct CollectiveVote {
    /// Control block of the thread.
    pub thread: usize,
    /// This process's vote, and the minimum of all members.
    pub numbers: InFlight<Vec<u64>>,
}

/// State from which the next cut follows.
pub struct CutState {
    /// Part that is saved.
    pub schedule: Schedule,
    /// Number of the first cut point that requires an action.
    ///
    /// The number is that of the next decision, or 0 while a vote must be polled at each cut point.
    pub next_action: u64,
    /// Vote for the next decision: end of the interval, and time per cut point.
    pub vote: Option<MaxAllreduce>,
    /// Time of the last cut that was taken or refused.
    pub last: Option<Instant>,
    /// Number of successive intervals in which a worker has refused the cut.
    pub refusals: u32,
    /// Time and cut point of the last decision, to measure the time per cut point.
    pub decided: Option<(Instant, u64)>,
    /// True if the next cut point is the call to which the program was rewound.
    ///
    /// A cut was already taken at this call.
    pub resumed: bool,
    /// Cost of checkpoints here, and the interval that follows from the maximum cost.
    pub pace: JobPace,
    /// Time for which the last checkpoint has paused the program.
    pub cost: Duration,
    /// Nesting depth of `understudy_hold`; cuts are inhibited while it is positive.
    ///
    /// Zero at every cut except the first.
    pub inhibit_depth: u32,
    /// Agreement on a cut at any call.
    pub anywhere: AnywhereAgreement,
    /// Votes of threads at entries of collectives, if several threads call MPI concurrently.
    pub gatherings: EntryVotes,
    pub collective_votes: Vec<CollectiveVote>,
    /// Constructors that threads are about to enter.
    ///
    /// Only constructors without a communicator of exactly the calling processes are included.
    pub assemblies: Assemblies,
    /// Control messages in flight.
    pub control_messages: SendQueue,
}

impl CutState {
    /// Returns the state with this schedule; all other fields have their initial values.
    pub(super) const fn with_schedule(schedule: Schedule) -> CutState {
        CutState {
            schedule,
            next_action: 0,
            vote: None,
            last: None,
            refusals: 0,
            decided: None,
            resumed: false,
            pace: JobPace::START,
            cost: Duration::ZERO,
            inhibit_depth: 0,
            anywhere: AnywhereAgreement::NONE,
            gatherings: EntryVotes::NONE,
            collective_votes: Vec::new(),
            assemblies: Assemblies::NONE,
            control_messages: SendQueue::NONE,
        }
    }
}
