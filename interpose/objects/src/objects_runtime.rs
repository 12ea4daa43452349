//! `Runtime` of this crate.
//!
//! Contains the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::abi::ForeignHandles;
use crate::cell::{Door, runtime};
use crate::early::DrainedState;
use crate::handles::HandleTable;
use crate::objects::ObjectTables;
use crate::requests::RequestTable;

runtime! {
    pub struct Runtime: understudy_job::Runtime {
        /// Real handles behind the program's virtual handles.
        pub(crate) handles: HandleTable = HandleTable::start(),
        /// Handles of a program with another ABI than Open MPI's.
        pub(crate) foreign: ForeignHandles = ForeignHandles::start(),
        /// Objects that the program has created.
        pub(crate) objects: ObjectTables = ObjectTables::start(),
        /// Requests of the program.
        pub(crate) requests: RequestTable = RequestTable::start(),
        /// Drained messages, which were received before the program asked for them.
        pub(crate) early: DrainedState = DrainedState::start(),
    }
}

/// Access for functions that the real library calls.
pub static DOOR: Door<Runtime> = Door::new();
