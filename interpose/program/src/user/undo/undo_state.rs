//! Recorders of the effects of this process and of its children.

use super::child_effects::ChildEffects;
use super::note::Recorder;
use super::place::Place;
use crate::cell::Field;
use std::cell::Cell;

/// Recorders of effects on files, and the location of their logs.
pub struct UndoState {
    pub recorder: Field<Option<Recorder>>,
    /// Recorder of effects of child processes.
    pub child_effects: Field<Option<ChildEffects>>,
    /// True if effects of child processes cannot be recorded.
    pub cannot_note_child_effects: Cell<bool>,
    /// Location beside the checkpoints on disk, until the end of the job.
    pub on_disk: Field<Option<Place>>,
    /// True if effects are recorded before MPI_Init.
    ///
    /// This is the case in a restarted job: earlier effects of the program are on disk.
    pub early: Cell<bool>,
}

impl UndoState {
    /// State at the start of the process.
    pub const fn new() -> UndoState {
        UndoState {
            recorder: Field::new(None),
            child_effects: Field::new(None),
            cannot_note_child_effects: Cell::new(false),
            on_disk: Field::new(None),
            early: Cell::new(false),
        }
    }
}
