//! `Runtime` of this crate.
//!
//! Contains the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::recovery::RecoveryState;
use crate::runtime_state::{RuntimeAccess, runtime};
use crate::static_data::TrialState;

runtime! {
    pub struct Runtime: understudy_copies::Runtime {
        /// Trial replays, and static data that replicas omit.
        pub(crate) static_data: TrialState = TrialState::start(),
        /// Past recoveries, and the one under way.
        pub(crate) recovery: RecoveryState = RecoveryState::start(),
    }
}

/// Access for functions that lower crates and the program call.
pub static DOOR: RuntimeAccess<Runtime> = RuntimeAccess::new();
