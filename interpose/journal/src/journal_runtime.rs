//! `Runtime` of this crate.
//!
//! Contains the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::journal::JournalState;
use crate::runtime_state::{RuntimeAccess, runtime};

runtime! {
    pub struct Runtime: understudy_objects::Runtime {
        /// The phase that is recorded, and the replay under way.
        pub(crate) journal: JournalState = JournalState::start(),
    }
}

/// Access for functions that the entry code or the kernel calls.
pub static DOOR: RuntimeAccess<Runtime> = RuntimeAccess::new();
