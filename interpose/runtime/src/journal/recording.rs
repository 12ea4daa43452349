//! The phase that is recorded, and the runtime of this module.

use super::end::Watch;
use super::hold::Hold;
use super::play::Play;
use super::recorder::Recorder;
use crate::arch::Frame;
use crate::cell::{Door, Field, runtime};
use crate::early;
use std::time::Duration;
use understudy_numbers::Epoch;

runtime! {
    pub struct Runtime: early::Runtime {
        /// The phase that is recorded, or was.
        pub(super) recording: Field<Recording> = Field::new(Recording::Off),
        /// What a replay holds back.
        pub(super) hold: Field<Option<Hold>> = Field::new(None),
        /// The replay under way.
        pub(super) play: Field<Option<Play>> = Field::new(None),
    }
}

/// A phase that is recorded.
pub struct Phase {
    pub recorder: Recorder,
    /// The call that it began with: that of `MPI_Init`, or a cut.
    pub begin: Frame,
    /// The epoch of that cut.
    pub base: Option<Epoch>,
    /// What a replay knows its last call by, the cut: slot, hash of the arguments.
    pub end: Option<(u64, u32)>,
    /// How long it took.
    pub took: Duration,
    pub(super) watch: Watch,
    pub records: bool,
    /// How long the journal may be, when this was asked last.
    pub(super) room: usize,
    /// How long it may be now, in bytes.
    pub(super) limit: fn() -> usize,
    /// All workers agree that the next cut is its end.
    pub(super) is_agreed: bool,
    /// The epoch at its end.
    pub(super) epoch: Epoch,
}

/// How far the recording of a phase is.
pub(super) enum Recording {
    /// There is none.
    Off,
    /// It is under way.
    On(Box<Phase>),
    /// Its last cut has been taken, and nobody has asked for it yet.
    Ended(Box<Phase>),
}

impl Recording {
    /// The phase that is under way.
    pub(super) fn on(&self) -> Option<&Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn on_mut(&mut self) -> Option<&mut Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }
}

/// For what the entry code and the kernel call.
pub static DOOR: Door<Runtime> = Door::new();
