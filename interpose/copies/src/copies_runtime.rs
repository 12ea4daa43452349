//! `Runtime` of this crate, with the state of its modules.
//!
//! Dereferences to the `Runtime` of `understudy_journal`, the crate below in the order of
//! dependencies.

use crate::annotations::AnnotationState;
use crate::copies::ReplicaState;
use crate::runtime_state::runtime;
use crate::schedule::ScheduleState;

runtime! {
    pub struct Runtime: understudy_journal::Runtime {
        /// Annotations of the program (understudy.h).
        pub(crate) marks: AnnotationState = AnnotationState::start(),
        /// Position of the program among its cut points, and the time of the next checkpoint.
        pub(crate) schedule: ScheduleState = ScheduleState::start(),
        /// Replicas in this process.
        pub(crate) copies: ReplicaState = ReplicaState::start(),
    }
}
