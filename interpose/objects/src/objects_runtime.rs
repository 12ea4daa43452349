//! `Runtime` of this crate.
//!
//! Contains the state of the modules, and dereferences to the `Runtime` of the crate below.

use crate::abi::ForeignHandles;
use crate::drained::DrainedState;
use crate::handles::HandleTable;
use crate::objects::ObjectTables;
use crate::requests::RequestTable;
use crate::runtime_state::{RuntimeAccess, runtime};

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
        /// Messages that the program has not received yet: drained ones and matched ones.
        pub(crate) drained: DrainedState = DrainedState::start(),
    }
}

/// Access for functions that the real library calls.
pub static DOOR: RuntimeAccess<Runtime> = RuntimeAccess::new();
