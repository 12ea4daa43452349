//! The link of the runtime's chain that has the state of rehearsals.

use super::holder::Holder;
use super::input::Input;
use super::message::Message;
use super::new_phase::NewPhase;
use super::own_script::WorkerState;
use super::template::Template;
use crate::cell::{Field, runtime};
use crate::copies;
use std::cell::Cell;

runtime! {
    pub struct Runtime: understudy_copies::Runtime {
        /// True if a decision on static data is to be made.
        pub(super) is_open: Cell<bool> = Cell::new(false),
        /// Messages in flight, each with true if it is received.
        pub(super) messages: Field<Vec<(bool, Message)>> = Field::new(Vec::new()),
        /// Files that were open at the end of `MPI_Init`.
        pub(super) inputs: Field<Vec<Input>> = Field::new(Vec::new()),
        pub(super) holder: Field<Option<Holder>> = Field::new(None),
        /// The process for replays.
        pub(super) seed: Template = Template::none(),
        /// State of the worker at the begin of the phase under way.
        pub(super) base: Field<Option<copies::Base>> = Field::new(None),
        /// This worker's own script.
        pub(super) worker: Field<Option<WorkerState>> = Field::new(None),
        /// Wish for another phase.
        pub(super) new_phase: Field<NewPhase> = Field::new(NewPhase::NOTHING),
    }
}
