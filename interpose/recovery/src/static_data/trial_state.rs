//! State of trial replays.

use super::input::OpenInputFile;
use super::new_phase_request::NewPhaseRequest;
use super::own_plan::ReplayPlans;
use super::template::Template;
use super::trial_buddy::TrialQueue;
use crate::copies;
use crate::runtime_state::StateCell;
use std::cell::Cell;

/// Trial replays, and static data that replicas omit.
pub struct TrialState {
    /// True while `UNDERSTUDY_STATIC=auto` has not been [decided](super::decision).
    pub(super) is_undecided: Cell<bool>,
    /// Files that were open at the end of `MPI_Init`.
    pub(super) inputs: StateCell<Vec<OpenInputFile>>,
    /// Trial replays that this process runs for other workers.
    pub(super) trials: StateCell<Option<TrialQueue>>,
    /// Template process of this process.
    pub(super) template: Template,
    /// State of the worker at the beginning of the phase under way.
    pub(super) base: StateCell<Option<copies::ReplayBase>>,
    /// Replay plans of this worker, and of the workers whose replicas it stores.
    pub(super) plans: StateCell<Option<ReplayPlans>>,
    /// Request for a new set-up phase.
    pub(super) new_phase: StateCell<NewPhaseRequest>,
}

impl TrialState {
    /// State at the start of the process.
    pub const fn start() -> TrialState {
        TrialState {
            is_undecided: Cell::new(false),
            inputs: StateCell::new(Vec::new()),
            trials: StateCell::new(None),
            template: Template::none(),
            base: StateCell::new(None),
            plans: StateCell::new(None),
            new_phase: StateCell::new(NewPhaseRequest::NONE),
        }
    }
}
