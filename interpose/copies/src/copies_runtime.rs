//! `Runtime` of this crate, with the state of its modules.
//!
//! It dereferences to the `Runtime` of the crate below.

use crate::cell::runtime;
use crate::copies::ReplicaState;
use crate::marks::MarkState;
use crate::schedule::ScheduleState;

runtime! {
    pub struct Runtime: understudy_journal::Runtime {
        /// Annotations of the program.
        pub(crate) marks: MarkState = MarkState::start(),
        /// Time at which checkpoints are due.
        pub(crate) schedule: ScheduleState = ScheduleState::start(),
        /// Replicas in this process.
        pub(crate) copies: ReplicaState = ReplicaState::start(),
    }
}
