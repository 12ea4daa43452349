//! State of trial replays.

use super::holder::Holder;
use super::input::Input;
use super::message::Message;
use super::new_phase::NewPhase;
use super::own_script::WorkerState;
use super::template::Template;
use crate::copies;
use crate::runtime_state::StateCell;
use std::cell::Cell;

/// Trial replays, and static data that replicas omit.
pub struct TrialState {
    /// True if a decision on static data is still to be made.
    pub(super) is_open: Cell<bool>,
    /// Messages in flight, each with true if it is received.
    pub(super) messages: StateCell<Vec<(bool, Message)>>,
    /// Files that were open at the end of `MPI_Init`.
    pub(super) inputs: StateCell<Vec<Input>>,
    pub(super) holder: StateCell<Option<Holder>>,
    /// Template process of this process.
    pub(super) seed: Template,
    /// State of the worker at the begin of the phase under way.
    pub(super) base: StateCell<Option<copies::ReplayBase>>,
    /// Replay plans of this worker.
    pub(super) worker: StateCell<Option<WorkerState>>,
    /// Request for a new set-up phase.
    pub(super) new_phase: StateCell<NewPhase>,
}

impl TrialState {
    /// State at the start of the process.
    pub const fn start() -> TrialState {
        TrialState {
            is_open: Cell::new(false),
            messages: StateCell::new(Vec::new()),
            inputs: StateCell::new(Vec::new()),
            holder: StateCell::new(None),
            seed: Template::none(),
            base: StateCell::new(None),
            worker: StateCell::new(None),
            new_phase: StateCell::new(NewPhase::NOTHING),
        }
    }
}
