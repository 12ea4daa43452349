//! Recorders of the effects of this process and of its children.

use super::child_effects::ChildEffects;
use super::log_location::LogLocation;
use super::recorder::Recorder;
use crate::runtime_state::StateCell;
use std::cell::Cell;

/// Recorders of effects on files, and the location of their logs.
pub struct UndoState {
    pub recorder: StateCell<Option<Recorder>>,
    /// Recorder of effects of child processes.
    pub child_effects: StateCell<Option<ChildEffects>>,
    /// True if effects of child processes cannot be recorded.
    pub cannot_record_children: Cell<bool>,
    /// Location beside the checkpoints on disk, until the end of the job.
    pub on_disk: StateCell<Option<LogLocation>>,
    /// True if effects are recorded before MPI_Init.
    ///
    /// The value is true only in a restarted job, until MPI_Init undoes these effects.
    pub early: Cell<bool>,
}

impl UndoState {
    /// State at the start of the process.
    pub const fn new() -> UndoState {
        UndoState {
            recorder: StateCell::new(None),
            child_effects: StateCell::new(None),
            cannot_record_children: Cell::new(false),
            on_disk: StateCell::new(None),
            early: Cell::new(false),
        }
    }
}
