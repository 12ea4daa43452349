//! `Runtime` of this crate.
//!
//! It holds the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::cell::{Door, runtime};
use crate::recovery::RecoveryState;
use crate::rehearsal::TrialState;

runtime! {
    pub struct Runtime: understudy_copies::Runtime {
        /// Trial replays, and static data that replicas omit.
        pub(crate) rehearsal: TrialState = TrialState::start(),
        /// Past recoveries, and the one under way.
        pub(crate) recovery: RecoveryState = RecoveryState::start(),
    }
}

/// Access for functions that lower crates and the program call.
pub static DOOR: Door<Runtime> = Door::new();
