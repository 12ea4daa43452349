//! Allocation of the memory that the members of a window share ([`Region`]).
#![allow(unsafe_code)]

use super::region::starts;
pub use super::region::{Region, Segment};
use super::rma_window::{Flavor, Window};
use crate::Runtime;
use crate::errors::ERR_NO_MEM;
use crate::objects::{comm, objects};
use crate::{gather, told, user, world};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_formats::private::MEMORY;
use understudy_image::shared;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};

const ERR_RMA_SHARED: c_int = 71;

/// Divisor of the free memory for files: an optional window may take one such share.
const SHARE: u64 = 4;

/// Makes this process the owner of the worker's parts of windows.
///
/// The parts are in the image of their owner.
pub fn belong_to(worker: Worker) {
    shared::begin(|| user::in_job_memory(&told::job(), ""), worker);
}

/// True if a window of this size takes a small share of the free memory.
fn is_plenty(bytes: u64) -> bool {
    // SAFETY: statvfs(3) of a path, with a structure of this frame.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        let path = std::ffi::CString::new(MEMORY).unwrap_or_default();
        libc::statvfs(path.as_ptr(), &mut found) == 0
            && found.f_bavail.saturating_mul(found.f_frsize) / SHARE >= bytes
    }
}

/// Allocates memory for `MPI_Win_allocate` that the members share, if that is possible and cheap.
///
/// `None` if they are on several nodes or memory for files is short. Collective over the members.
///
/// # Errors
/// `MPI_ERR_NO_MEM`, or the error of a real procedure.
pub fn allocate_if_plenty(
    rt: &Runtime,
    own: u32,
    real: RealComm,
    segment: Segment,
) -> Result<Option<Region>, c_int> {
    let code = |error: mpi::Error| error.code();
    let sizes = gather::everybodys(real, &segment.size).map_err(code)?;
    let bytes = sizes.iter().map(|&size| size.max(0) as u64).sum();
    if gather::all_say(real, world::is_on_one_node(rt) && is_plenty(bytes)).map_err(code)? {
        return allocate(rt, own, real, segment).map(Some);
    }
    Ok(None)
}

/// Allocates the memory of a window.
///
/// The window's communicator has the index `own` and the real handle `real`. Collective over its
/// members.
///
/// # Errors
/// `MPI_ERR_RMA_SHARED` if they are on several nodes, `MPI_ERR_NO_MEM`, or the error of a real
/// procedure.
pub fn allocate(rt: &Runtime, own: u32, real: RealComm, segment: Segment) -> Result<Region, c_int> {
    let code = |error: mpi::Error| error.code();
    belong_to(world::worker(rt));
    let members = comm::handle(rt, own);
    let segments = gather::everybodys(real, &segment).map_err(code)?;
    let mut region = Region {
        base: 0,
        starts: starts(&segments),
        segments,
        window: comm::get(rt, members).map_or(0, |comm| comm.uid),
        owners: comm::members(rt, members).unwrap_or_default(),
    };
    if !region.is_on_one_node(rt, &world::get(rt).players) {
        return Err(ERR_RMA_SHARED);
    }
    // No process has mapped the file; an existing one is a leftover.
    shared::remove_locks(region.window);
    let made = region.own_part().map_or(Ok(()), |(part, bytes)| {
        part.make(bytes.end - bytes.start).map(drop)
    });
    let is_made = gather::all_say(real, made.is_ok()).map_err(code)?;
    let mapped = if is_made { region.map() } else { Ok(()) };
    if is_made && gather::all_say(real, mapped.is_ok()).map_err(code)? {
        return Ok(region);
    }
    for error in [made, mapped].into_iter().filter_map(Result::err) {
        log::warn!("{}", message::window_memory(region.length(), error, MEMORY));
    }
    region.release(real).map_err(code)?;
    Err(ERR_NO_MEM)
}

/// Error for workers that share memory and would be on several nodes.
#[derive(Debug, thiserror::Error)]
#[error("{}", message::SHARED_WINDOW_ON_SEVERAL_NODES)]
pub struct Apart;

/// Checks that the members of each window of `MPI_Win_allocate_shared` are on one node.
///
/// `players` are the workers' processes. Members of other windows may be on several nodes: the
/// library accesses the parts that this process cannot ([`Region::reaches`]).
///
/// # Errors
/// Members are on several nodes.
pub fn check_nodes(rt: &Runtime, players: &[ProcessNumber]) -> Result<(), Apart> {
    let all = objects(rt);
    let shared = |window: &Window| window.flavor == Flavor::Shared;
    let mut windows = all.windows.iter().map(|(_, window)| window);
    windows
        .all(|window| !shared(window) || window.region.is_on_one_node(rt, players))
        .then_some(())
        .ok_or(Apart)
}
