//! Workers and spares: who plays which part, and the runtime's own communicators.
#![allow(unsafe_code)]

use crate::cell::Main;
use crate::errors::{returns_errors, succeeded};
use crate::generated::real;
use crate::real_types::{RealComm, UNDEFINED};
use crate::redundancy::Redundancy;
use std::ffi::c_int;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Plays this worker.
    Worker(u32),
    /// Waits for a part.
    Spare,
}

/// The runtime's view of the job.
pub struct World {
    /// All living processes, workers and spares.
    pub control: RealComm,
    /// What the program sees as MPI_COMM_WORLD.
    pub workers: RealComm,
    /// All workers, for cuts, shipping and commits.
    pub private: RealComm,
    /// This process alone.
    pub own: RealComm,
    /// What this process does.
    pub part: Part,
    /// Its rank in the launcher's world.
    pub launcher_rank: u32,
    /// Number of workers.
    pub worker_count: u32,
    /// Number of spares that the job was started with.
    pub spare_count: u32,
    /// Who holds whose copies.
    pub redundancy: Redundancy,
    /// The node of each rank of the launcher's world.
    pub nodes: Vec<u64>,
    /// Whether failures are recovered from.
    pub protected: bool,
    /// MPI_Finalize has passed its last point of recovery.
    pub finalized: bool,
    /// How many recoveries there were.
    pub recoveries: u32,
    /// Launcher rank of the process that plays each worker.
    pub players: Vec<u32>,
    /// Launcher ranks of the processes that were alive after the last recovery.
    pub living: Vec<u32>,
}

/// `MPI_COMM_NULL`'s place where there is no communicator.
pub const NULL: RealComm = RealComm(std::ptr::null_mut());

static WORLD: Main<Option<World>> = Main::new(None);

/// From here on this process knows its job.
pub fn enter(world: World) {
    *WORLD.get() = Some(world);
}

/// The job, after MPI_Init.
pub fn get() -> &'static mut World {
    WORLD.get().as_mut().expect("MPI is initialised")
}

/// Whether MPI_Init has been called.
pub fn is_initialised() -> bool {
    WORLD.get().is_some()
}

/// Whether failures are recovered from now.
#[inline]
pub fn is_protected() -> bool {
    WORLD
        .get()
        .as_ref()
        .is_some_and(|world| world.protected && !world.finalized)
}

/// The communicator for cuts, shipping and commits.
pub fn private() -> RealComm {
    get().private
}

/// The communicator of this process alone.
pub fn own_comm() -> RealComm {
    get().own
}

/// The worker that this process plays.
pub fn worker() -> u32 {
    match get().part {
        Part::Worker(worker) => worker,
        Part::Spare => u32::MAX,
    }
}

/// Size of a communicator, and the own rank in it.
pub fn size_and_rank(comm: RealComm) -> (u32, u32) {
    let (mut size, mut rank) = (0, 0);
    // SAFETY: local queries of a valid communicator.
    unsafe {
        real::PMPI_Comm_size(comm, &mut size);
        real::PMPI_Comm_rank(comm, &mut rank);
    }
    (size as u32, rank as u32)
}

/// How many processes there are in `control`.
pub fn living_count() -> u32 {
    size_and_rank(get().control).0
}

/// A duplicate that returns errors; with the barrier without which a revocation crashes a rank that is still inside.
pub fn duplicate(comm: RealComm) -> Result<RealComm, c_int> {
    let mut copy = NULL;
    // SAFETY: collectives over a valid communicator.
    unsafe {
        succeeded(real::PMPI_Comm_dup(comm, &mut copy))?;
        returns_errors(copy);
        succeeded(real::PMPI_Barrier(copy))?;
    }
    Ok(copy)
}

/// A part of a communicator, `None` for those outside.
pub fn split(comm: RealComm, key: Option<u32>) -> Result<Option<RealComm>, c_int> {
    let mut part = NULL;
    let color = if key.is_some() { 0 } else { UNDEFINED };
    // SAFETY: collectives over valid communicators.
    unsafe {
        succeeded(real::PMPI_Comm_split(comm, color, key.unwrap_or(0) as c_int, &mut part))?;
        if key.is_none() {
            return Ok(None);
        }
        returns_errors(part);
        succeeded(real::PMPI_Barrier(part))?;
    }
    Ok(Some(part))
}
