//! Communicators (MPI 4.1, chapter 7).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use super::assembly_sides;
use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::{finish, handle_error};
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtGroup, real_comm, real_group};
use crate::objects::attribute;
use crate::objects::comm::create::{self, NewComm};
use crate::objects::comm::{self, freed};
use crate::{cut, drained, errors, requests};
use std::ffi::c_int;
use understudy_mpi::call;
use understudy_mpi::real_types::RealComm;

/// `MPI_Comm_rank`: answered from the handle table.
///
/// Invalid handles are passed to the library, which reports the error.
pub unsafe extern "C" fn MPI_Comm_rank(comm: VirtComm, rank: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        match comm::rank_and_size(rt, comm) {
            Some((own, _)) if !rank.is_null() => rank.write(own),
            _ => {
                let rc = attempt!(rt, real::PMPI_Comm_rank(real_comm(rt, comm), rank));
                return finish(rt, Proc::MPI_Comm_rank, rc, Some(comm));
            }
        }
    }
    errors::SUCCESS
}

pub unsafe extern "C" fn MPI_Comm_size(comm: VirtComm, size: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        match comm::rank_and_size(rt, comm) {
            Some((_, all)) if !size.is_null() => size.write(all),
            _ => {
                let rc = attempt!(rt, real::PMPI_Comm_size(real_comm(rt, comm), size));
                return finish(rt, Proc::MPI_Comm_size, rc, Some(comm));
            }
        }
    }
    errors::SUCCESS
}

/// Runs a constructor that all members of `parent` call, and registers the result.
///
/// A macro, because [`attempt!`] returns from the handler.
macro_rules! construct_by_all {
    ($rt:expr, $procedure:expr, $parent:expr, $newcomm:expr, $constructor:expr) => {{
        if $crate::cut::together($rt, $parent).is_err() {
            return 0;
        }
        $crate::calls::comm::construct_by_some!($rt, $procedure, $parent, $newcomm, $constructor)
    }};
}

/// Runs a constructor that only some members of `parent` call, and registers the result.
///
/// An invalid `parent` and a null `newcomm` are errors, for which the handler returns.
macro_rules! construct_by_some {
    ($rt:expr, $procedure:expr, $parent:expr, $newcomm:expr, $constructor:expr) => {{
        if let Err(rc) = $crate::calls::comm::may_construct($rt, $parent, $newcomm) {
            return $crate::error_handling::handle_error($rt, $procedure, rc, Some($parent));
        }
        let mut made = None;
        let rc = $crate::attempt!(
            $rt,
            $crate::objects::comm::create::make(
                $rt,
                $constructor,
                |comm| $crate::drained::is_comm_in_use($rt, comm),
                &mut made
            )
        );
        // SAFETY: `may_construct` excludes null; MPI requires any other `newcomm` to be valid.
        unsafe { $crate::calls::comm::constructed($rt, $procedure, rc, made, $parent, $newcomm) }
    }};
}
pub(super) use {construct_by_all, construct_by_some};

/// Implements `MPI_Comm_split` and its variants.
///
/// After a failure the new communicator has the members of the old one, even if a replacement is on
/// another node. The members of a communicator of `MPI_COMM_TYPE_SHARED` may then not share memory.
/// Topologies are read from the library's communicator, with the library's order of ranks.
///
/// # Safety
/// `newcomm` is the program's address for the handle, or null.
pub(super) unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    parent: VirtComm,
    newcomm: *mut VirtComm,
    constructor: impl FnOnce(&mut RealComm) -> c_int,
) -> c_int {
    construct_by_all!(rt, procedure, parent, newcomm, constructor)
}

/// Checks those arguments of a constructor that the runtime itself uses.
pub(super) fn may_construct(
    rt: &Runtime,
    parent: VirtComm,
    newcomm: *mut VirtComm,
) -> Result<(), c_int> {
    if comm::index(rt, parent).is_none() {
        Err(errors::ERR_COMM)
    } else if newcomm.is_null() {
        Err(errors::ERR_ARG)
    } else {
        Ok(())
    }
}

/// Registers the communicator of a constructor whose return code is `rc`, and writes its handle.
///
/// # Safety
/// `newcomm` is the program's address for the new handle.
pub(super) unsafe fn constructed(
    rt: &Runtime,
    procedure: Proc,
    rc: c_int,
    made: Option<NewComm>,
    parent: VirtComm,
    newcomm: *mut VirtComm,
) -> c_int {
    let new = made
        .filter(|_| rc == errors::SUCCESS)
        .map(|made| register(rt, made, parent));
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe { *newcomm = new.unwrap_or_else(|| comm::null_handle(rt)) };
    finish(rt, procedure, rc, Some(parent))
}

fn register(rt: &Runtime, made: NewComm, parent: VirtComm) -> VirtComm {
    let new = create::register(rt, made, parent);
    // Drops messages of a former communicator with this handle.
    drained::drop_on(rt, new);
    new
}

pub unsafe extern "C" fn MPI_Comm_create_group(
    comm: VirtComm,
    group: VirtGroup,
    tag: c_int,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    outcome!(cut::assemble(rt, || assembly_sides::of_group(
        rt,
        Some(comm),
        group,
        tag as u64
    )));
    construct_by_some!(
        rt,
        Proc::MPI_Comm_create_group,
        comm,
        newcomm,
        // SAFETY: `comm` is a communicator; the real library checks the other arguments.
        |new| unsafe {
            real::PMPI_Comm_create_group(real_comm(rt, comm), real_group(rt, group), tag, new)
        }
    )
}

pub unsafe extern "C" fn MPI_Intercomm_create(
    local_comm: VirtComm,
    local_leader: c_int,
    bridge_comm: VirtComm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let (local, bridge) = ((local_comm, local_leader), (bridge_comm, remote_leader));
    outcome!(cut::assemble(rt, || assembly_sides::of_intercomm(
        rt, local, bridge, tag
    )));
    construct_by_some!(
        rt,
        Proc::MPI_Intercomm_create,
        local_comm,
        newintercomm,
        // SAFETY: a communicator; the real library checks the rest. Only the leader uses the
        // bridge; other ranks may pass any value.
        |new| unsafe {
            let local = real_comm(rt, local_comm);
            let mut rank = 0;
            let rc = real::PMPI_Comm_rank(local, &mut rank);
            if rc != errors::SUCCESS {
                return rc;
            }
            let bridge = if rank == local_leader {
                real_comm(rt, bridge_comm)
            } else {
                local
            };
            real::PMPI_Intercomm_create(local, local_leader, bridge, remote_leader, tag, new)
        }
    )
}

/// Returns handle and index of a communicator that the program may free.
///
/// `MPI_ERR_COMM` for a predefined communicator, and for one that has been freed.
unsafe fn to_free(rt: &Runtime, comm: *mut VirtComm) -> Result<(VirtComm, u32), c_int> {
    if comm.is_null() {
        return Err(errors::ERR_ARG);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let handle = unsafe { *comm };
    match comm::index(rt, handle) {
        Some(index)
            if index > comm::SELF && !comm::get(rt, handle).is_some_and(|comm| comm.is_freed) =>
        {
            Ok((handle, index))
        }
        _ => Err(errors::ERR_COMM),
    }
}

/// `MPI_Comm_free`: local, as in the libraries.
///
/// The entry stays until all members have freed the communicator ([`freed`]).
pub unsafe extern "C" fn MPI_Comm_free(comm: *mut VirtComm) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_free;
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let (handle, index) = match unsafe { to_free(rt, comm) } {
        Ok(found) => found,
        Err(rc) => return handle_error(rt, procedure, rc, None),
    };
    let mut rc = attribute::delete_comm(rt, handle);
    // A communicator with spawned processes is freed even if there are requests: otherwise the
    // library's finalisation may wait for these processes.
    let has_requests = requests::has_requests_on(rt, handle) && !comm::has_spawned(rt, handle);
    if rc == errors::SUCCESS {
        rc = freed::free(rt, index, has_requests);
    }
    if rc != errors::SUCCESS {
        return handle_error(rt, procedure, rc, Some(handle));
    }
    if !has_requests {
        drained::drop_on(rt, handle);
    }
    requests::detach(rt, handle.into());
    // SAFETY: MPI requires the program's address of a handle to be valid.
    unsafe { *comm = comm::null_handle(rt) };
    errors::SUCCESS
}

/// `MPI_Comm_disconnect`: the real procedure waits for pending communication.
pub unsafe extern "C" fn MPI_Comm_disconnect(comm: *mut VirtComm) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_disconnect;
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let (handle, index) = match unsafe { to_free(rt, comm) } {
        Ok(found) => found,
        Err(rc) => return handle_error(rt, procedure, rc, None),
    };
    let mut rc = errors::SUCCESS;
    // Spawned processes do not have the runtime, so they would not call this barrier.
    if !comm::has_spawned(rt, handle) {
        outcome!(cut::together(rt, handle));
        // SAFETY: a communicator that the program has not freed.
        let met = unsafe { real::PMPI_Barrier(real_comm(rt, handle)) };
        rc = attempt!(rt, met);
    }
    if rc == errors::SUCCESS {
        rc = attribute::delete_comm(rt, handle);
    }
    if rc == errors::SUCCESS {
        let mut real = real_comm(rt, handle);
        // SAFETY: a communicator; after a success it is not used any longer.
        rc = unsafe { real::PMPI_Comm_disconnect(&mut real) };
        // Open MPI returns MPI_ERR_COMM if its server ends because of a failure.
        if rc != errors::SUCCESS && comm::has_spawned(rt, handle) && call::await_over() {
            rc = call::ABANDONED;
        }
        rc = attempt!(rt, rc);
    }
    if rc != errors::SUCCESS {
        return handle_error(rt, procedure, rc, Some(handle));
    }
    freed::remove_disconnected(rt, index);
    drained::drop_on(rt, handle);
    requests::detach(rt, handle.into());
    // SAFETY: MPI requires the program's address of a handle to be valid.
    unsafe { *comm = comm::null_handle(rt) };
    errors::SUCCESS
}

/// `MPI_Comm_get_parent`: protected processes were never spawned.
pub unsafe extern "C" fn MPI_Comm_get_parent(parent: *mut VirtComm) -> c_int {
    let rt = runtime();
    if parent.is_null() {
        return handle_error(rt, Proc::MPI_Comm_get_parent, errors::ERR_ARG, None);
    }
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe { *parent = comm::null_handle(rt) };
    errors::SUCCESS
}

/// Fortran handle of the first created communicator.
///
/// Fortran handles of predefined communicators are the real library's.
const FORTRAN_BASE: c_int = 1_000_000;
/// Fortran handle of MPI_COMM_NULL in Open MPI.
const FORTRAN_NULL: c_int = 2;

pub unsafe extern "C" fn MPI_Comm_c2f(comm: VirtComm) -> c_int {
    let rt = runtime();
    match comm::index(rt, comm) {
        Some(index @ (comm::WORLD | comm::SELF)) => index as c_int,
        Some(index) => FORTRAN_BASE + index as c_int,
        None if comm == comm::null_handle(rt) => FORTRAN_NULL,
        // The value that the real library returns.
        None => -1,
    }
}

pub unsafe extern "C" fn MPI_Comm_f2c(comm: c_int) -> VirtComm {
    let rt = runtime();
    let invalid = VirtComm(std::ptr::null_mut());
    match comm {
        0 => comm::world_handle(rt),
        1 => comm::self_handle(rt),
        FORTRAN_NULL => comm::null_handle(rt),
        FORTRAN_BASE.. => match comm::handle(rt, (comm - FORTRAN_BASE) as u32) {
            handle if comm::index(rt, handle).is_some() => handle,
            _ => invalid,
        },
        _ => invalid,
    }
}
