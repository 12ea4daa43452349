//! Allocation of the memory that the members of a window share ([`SharedRegion`]).
#![allow(unsafe_code)]

use super::region::segment_starts;
pub use super::region::{Segment, SharedRegion};
use super::rma_window::{Window, WindowFlavor};
use crate::Runtime;
use crate::errors::ERR_NO_MEM;
use crate::objects::{comm, objects};
use crate::{gather, process_info, user, world};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY;
use understudy_image::window_memory;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};

const ERR_RMA_SHARED: c_int = 71;

/// Reciprocal of the share of the free shared memory that an optional allocation may take.
const MAX_SHARE_DIVISOR: u64 = 4;

/// Makes this process the owner of the worker's parts of windows.
///
/// The replica of a worker contains the parts that the worker owns.
pub fn own_parts_of(worker: Worker) {
    window_memory::set_worker(|| user::in_job_memory(&process_info::job(), ""), worker);
}

/// True if a window of this size takes little of the free shared memory.
fn is_small_share(bytes: u64) -> bool {
    // SAFETY: statvfs(3) of a path, with a structure of this frame.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        let path = std::ffi::CString::new(SHARED_MEMORY_DIRECTORY).unwrap_or_default();
        libc::statvfs(path.as_ptr(), &mut found) == 0
            && found.f_bavail.saturating_mul(found.f_frsize) / MAX_SHARE_DIVISOR >= bytes
    }
}

/// Allocates memory for `MPI_Win_allocate` that the members share, if that is possible and cheap.
///
/// `None` if the job's processes are on several nodes or shared memory is short. Collective over
/// the members.
///
/// # Errors
/// Fails with `MPI_ERR_NO_MEM`, or with the error of a real procedure.
pub fn allocate_if_cheap(
    rt: &Runtime,
    comm_index: u32,
    real: RealComm,
    segment: Segment,
) -> Result<Option<SharedRegion>, c_int> {
    let code = |error: mpi::Error| error.code();
    let sizes = gather::gather_from_all(real, &segment.size).map_err(code)?;
    let bytes = sizes.iter().map(|&size| size.max(0) as u64).sum();
    if gather::all_true(real, world::is_on_one_node(rt) && is_small_share(bytes)).map_err(code)? {
        return allocate(rt, comm_index, real, segment).map(Some);
    }
    Ok(None)
}

/// Allocates the memory of a window.
///
/// The window's communicator has the index `comm_index` and the real handle `real`. Collective over
/// its members.
///
/// # Errors
/// Fails with `MPI_ERR_RMA_SHARED` if the members are on several nodes, with `MPI_ERR_NO_MEM`, or
/// with the error of a real procedure.
pub fn allocate(
    rt: &Runtime,
    comm_index: u32,
    real: RealComm,
    segment: Segment,
) -> Result<SharedRegion, c_int> {
    let code = |error: mpi::Error| error.code();
    own_parts_of(world::worker(rt));
    let members = comm::handle(rt, comm_index);
    let segments = gather::gather_from_all(real, &segment).map_err(code)?;
    let mut region = SharedRegion {
        base: 0,
        starts: segment_starts(&segments),
        segments,
        window: comm::get(rt, members).map_or(0, |comm| comm.uid),
        owners: comm::members(rt, members).unwrap_or_default(),
    };
    if !region.is_on_one_node(rt, &world::get(rt).process_of) {
        return Err(ERR_RMA_SHARED);
    }
    // No process has mapped the file; an existing one is a leftover.
    window_memory::remove_locks(region.window);
    let created = region.own_part().map_or(Ok(()), |(part, bytes)| {
        part.create(bytes.end - bytes.start).map(drop)
    });
    let are_all_created = gather::all_true(real, created.is_ok()).map_err(code)?;
    let mapped = if are_all_created {
        region.map()
    } else {
        Ok(())
    };
    if are_all_created && gather::all_true(real, mapped.is_ok()).map_err(code)? {
        return Ok(region);
    }
    for error in [created, mapped].into_iter().filter_map(Result::err) {
        log::warn!(
            "{}",
            message::window_memory(region.length(), error, SHARED_MEMORY_DIRECTORY)
        );
    }
    region.release(real).map_err(code)?;
    Err(ERR_NO_MEM)
}

/// Error of a recovery that would place workers which share memory on several nodes.
#[derive(Debug, thiserror::Error)]
#[error("{}", message::SHARED_WINDOW_ON_SEVERAL_NODES)]
pub struct OnSeveralNodes;

/// Checks that the members of each window of `MPI_Win_allocate_shared` are on one node.
///
/// `processes` are the workers' processes. Members of other windows may be on several nodes: the
/// library accesses the parts that this process cannot ([`SharedRegion::shares_node_with`]).
///
/// # Errors
/// Fails if members are on several nodes.
pub fn check_nodes(rt: &Runtime, processes: &[ProcessNumber]) -> Result<(), OnSeveralNodes> {
    let all = objects(rt);
    let shared = |window: &Window| window.flavor == WindowFlavor::Shared;
    let mut windows = all.windows.iter().map(|(_, window)| window);
    windows
        .all(|window| !shared(window) || window.region.is_on_one_node(rt, processes))
        .then_some(())
        .ok_or(OnSeveralNodes)
}
