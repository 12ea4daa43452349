//! Persistent collectives (MPI 4.1, section 6.13): common functions of their handlers.
//!
//! The handlers are generated.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::attempt;
use crate::error_handling::finish;
use crate::errors::{ERR_COMM, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest};
use crate::objects::comm;
use crate::posting;
use crate::requests::{self, Argument, RequestRecipe};
use crate::world;
use std::any::Any;
use std::ffi::c_int;
use understudy_mpi::real_types::{ROOT, RealRequest};

/// Returns the number of blocks that a collective sends: one for each member.
///
/// For an intercommunicator, one for each member of the remote group.
pub fn peer_count(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| {
        comm.remote.as_ref().unwrap_or(&comm.members).len()
    })
}

/// Returns the number of members of the local group.
pub fn local_size(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| comm.members.len())
}

/// True if this process is the root, whose arguments are significant.
pub fn is_root(rt: &Runtime, comm: VirtComm, root: c_int) -> bool {
    comm::get(rt, comm).is_some_and(|comm| match comm.remote {
        Some(_) => root == ROOT,
        None => comm.members.get(root as usize) == Some(&world::worker(rt)),
    })
}

/// Enters a new inactive request in the table, with its recipe, and writes its handle.
///
/// No cut is taken before all participants have created the request: the creation counts as a
/// started operation. A participant alone could not recreate the request after a rollback, since
/// the library exchanges messages about the request.
///
/// # Safety
/// `request` is the program's address for the handle.
pub(super) unsafe fn enter_recorded(
    rt: &Runtime,
    mut recipe: RequestRecipe,
    real: RealRequest,
    library_data: Box<dyn Any + Send>,
    request: *mut VirtRequest,
) {
    recipe.remove_hints(rt);
    requests::count_started(rt, recipe.share);
    let handle = requests::add_recorded(rt, recipe, real, library_data);
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe { request.write(handle) };
}

/// Creates an inactive request, and records its recipe.
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
    // Numbers begin at 1: non-blocking collectives have the number 0.
    let Some(identity) = comm::get(rt, comm).map(|comm| (comm.uid, comm.derived_numbers + 1))
    else {
        return finish(rt, procedure, ERR_COMM, None);
    };
    let recipe = RequestRecipe {
        slot: procedure.slot() as u16,
        comm: comm.0 as u64,
        identity,
        members: comm::size_of_both(rt, comm) as u32,
        share: requests::share(rt, comm, identity.1),
        arguments,
    };
    let (real, library_data, rc) = posting::create_recorded(rt, &recipe);
    let rc = attempt!(rt, rc);
    if rc == SUCCESS {
        if let Some(mut comm) = comm::get_mut(rt, comm) {
            comm.derived_numbers = identity.1;
        }
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { enter_recorded(rt, recipe, real, library_data, request) };
    }
    finish(rt, procedure, rc, Some(comm))
}
