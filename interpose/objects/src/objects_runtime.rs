//! `Runtime` of this crate.
//!
//! The state of the modules; dereferences to the `Runtime` of the crate below.

use crate::abi::ForeignHandles;
use crate::cell::{Door, runtime};
use crate::early::DrainedState;
use crate::handles::HandleTable;
use crate::objects::ObjectTables;
use crate::requests::RequestTable;

runtime! {
    pub struct Runtime: understudy_job::Runtime {
        /// Real handles behind the program's.
        pub(crate) handles: HandleTable = HandleTable::start(),
        /// Handles of a program of another ABI.
        pub(crate) foreign: ForeignHandles = ForeignHandles::start(),
        /// Objects that the program has created.
        pub(crate) objects: ObjectTables = ObjectTables::start(),
        /// Requests of the program.
        pub(crate) requests: RequestTable = RequestTable::start(),
        /// Messages that were received before the program asked.
        pub(crate) early: DrainedState = DrainedState::start(),
    }
}

/// Access for functions that the real library calls.
pub static DOOR: Door<Runtime> = Door::new();
