//! Persistent collectives (MPI 4.1, section 6.13): common functions of their handlers.
//!
//! The handlers are generated.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::attempt;
use crate::errors::{ERR_COMM, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest};
use crate::objects::comm;
use crate::posting;
use crate::raise::finish;
use crate::requests::{self, Argument, Recipe};
use crate::world;
use std::ffi::c_int;

const ROOT: c_int = -4;

/// Returns the number of blocks that a collective sends: one per member.
///
/// For an intercommunicator they are the members of the remote group.
pub fn peer_count(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| {
        comm.remote.as_ref().unwrap_or(&comm.members).len()
    })
}

/// Returns the number of members of the local group.
pub fn local_size(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| comm.members.len())
}

/// True if the root's arguments are those of this process.
pub fn is_root(rt: &Runtime, comm: VirtComm, root: c_int) -> bool {
    comm::get(rt, comm).is_some_and(|comm| match comm.remote {
        Some(_) => root == ROOT,
        None => comm.members.get(root as usize) == Some(&world::worker(rt)),
    })
}

/// Makes an inactive request, and records its recipe.
///
/// # Safety
/// The arguments must be those of the procedure; `request` is the program's address for the handle.
pub unsafe fn init_collective(
    rt: &Runtime,
    procedure: Proc,
    comm: VirtComm,
    arguments: Vec<Argument>,
    request: *mut VirtRequest,
) -> c_int {
    // The numbers of non-blocking collectives are 0.
    let Some(identity) = comm::get(rt, comm).map(|comm| (comm.uid, comm.inits + 1)) else {
        return finish(rt, procedure, ERR_COMM, None);
    };
    let mut recipe = Recipe {
        slot: procedure.slot() as u16,
        comm: comm.0 as u64,
        identity,
        members: comm::size_of_both(rt, comm) as u32,
        share: requests::share(rt, comm, identity.1),
        arguments,
    };
    let (real, kept, rc) = posting::make(rt, &recipe);
    let rc = attempt!(rt, rc);
    if rc == SUCCESS {
        if let Some(mut comm) = comm::get_mut(rt, comm) {
            comm.inits = identity.1;
        }
        recipe.forget_hints(rt);
        // No cut is taken before all members have made their requests.
        requests::count_started(rt, recipe.share);
        let handle = requests::add_recorded(rt, recipe, real, kept);
        // SAFETY: the caller guarantees it.
        unsafe { request.write(handle) };
    }
    finish(rt, procedure, rc, Some(comm))
}
