//! `Runtime` of this crate, with the state of its modules.
//!
//! Dereferences to the `Runtime` of the crate below.

use crate::annotations::AnnotationState;
use crate::copies::ReplicaState;
use crate::runtime_state::runtime;
use crate::schedule::ScheduleState;

runtime! {
    pub struct Runtime: understudy_journal::Runtime {
        /// Annotations of the program.
        pub(crate) marks: AnnotationState = AnnotationState::start(),
        /// Time at which checkpoints are due.
        pub(crate) schedule: ScheduleState = ScheduleState::start(),
        /// Replicas in this process.
        pub(crate) copies: ReplicaState = ReplicaState::start(),
    }
}
