//! Recorders of the effects of this process and of its children.

use super::child_effects::ChildEffects;
use super::note::Recorder;
use super::place::Place;
use crate::cell::Field;
use std::cell::Cell;

/// Recorders of effects on files, and the place of their logs.
pub struct UndoState {
    pub recorder: Field<Option<Recorder>>,
    /// Effects of child processes.
    pub child_effects: Field<Option<ChildEffects>>,
    /// True if effects of child processes cannot be noted.
    pub cannot_note_child_effects: Cell<bool>,
    /// Place beside the epochs on disk, until the end of the job.
    pub on_disk: Field<Option<Place>>,
    /// True if effects are noted before MPI_Init.
    ///
    /// The job is started again, and what the program has done then is on disk.
    pub early: Cell<bool>,
}

impl UndoState {
    /// At the start of the process.
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
