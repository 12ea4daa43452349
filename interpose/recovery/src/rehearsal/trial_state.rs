//! State of trial replays.

use super::holder::Holder;
use super::input::Input;
use super::message::Message;
use super::new_phase::NewPhase;
use super::own_script::WorkerState;
use super::template::Template;
use crate::cell::Field;
use crate::copies;
use std::cell::Cell;

/// Trial replays, and static data that replicas omit.
pub struct TrialState {
    /// True if a decision on static data is still to be made.
    pub(super) is_open: Cell<bool>,
    /// Messages in flight, each with true if it is received.
    pub(super) messages: Field<Vec<(bool, Message)>>,
    /// Files that were open at the end of `MPI_Init`.
    pub(super) inputs: Field<Vec<Input>>,
    pub(super) holder: Field<Option<Holder>>,
    /// Template process of this process.
    pub(super) seed: Template,
    /// State of the worker at the begin of the phase under way.
    pub(super) base: Field<Option<copies::Base>>,
    /// Replay plans of this worker.
    pub(super) worker: Field<Option<WorkerState>>,
    /// Request for a new set-up phase.
    pub(super) new_phase: Field<NewPhase>,
}

impl TrialState {
    /// State at the start of the process.
    pub const fn start() -> TrialState {
        TrialState {
            is_open: Cell::new(false),
            messages: Field::new(Vec::new()),
            inputs: Field::new(Vec::new()),
            holder: Field::new(None),
            seed: Template::none(),
            base: Field::new(None),
            worker: Field::new(None),
            new_phase: Field::new(NewPhase::NOTHING),
        }
    }
}
