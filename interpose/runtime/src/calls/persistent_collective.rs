//! Persistent collectives (MPI 4.1, section 6.13): what their generated handlers have in common.
#![allow(unsafe_code)]

use crate::attempt;
use crate::errors::{ERR_COMM, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest};
use crate::objects::comm;
use crate::posting;
use crate::raise::finish;
use crate::requests::{self, Argument, Recipe};
use std::ffi::c_int;

/// Makes a request that is not started, and puts on record how.
///
/// # Safety
/// The arguments must be those of the procedure, and the program's place for the handle.
pub unsafe fn init_collective(
    procedure: Proc,
    comm: VirtComm,
    arguments: Vec<Argument>,
    amount: u64,
    request: *mut VirtRequest,
) -> c_int {
    // Numbers of non-blocking ones are 0.
    let Some(identity) = comm::get(comm).map(|comm| (comm.uid, comm.inits + 1)) else {
        return finish(procedure, ERR_COMM, None);
    };
    let mut recipe = Recipe {
        slot: procedure.slot() as u16,
        comm: comm.0 as u64,
        identity: Some(identity),
        members: comm::size_of_both(comm) as u32,
        share: requests::share(comm, identity.1),
        arguments,
        amount,
    };
    let (real, kept, rc) = posting::make(&recipe);
    let rc = attempt!(rc);
    if rc == SUCCESS {
        if let Some(mut comm) = comm::get_mut(comm) {
            comm.inits = identity.1;
        }
        recipe.forget_hints();
        let handle = requests::add_recorded(recipe, real, kept);
        // SAFETY: the caller's promise.
        unsafe { request.write(handle) };
    }
    finish(procedure, rc, Some(comm))
}
