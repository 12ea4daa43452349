//! Open epochs of windows: at a cut everything that was begun in them has arrived.
#![allow(unsafe_code)]

use super::{Known, in_order};
use crate::generated::real;
use crate::handles::real_comm;
use crate::objects::Runtime;
use crate::objects::{comm, objects};
use std::collections::BTreeMap;
use std::ffi::c_int;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealWin;
use understudy_mpi::{self as mpi, check};

/// What is open on a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Epochs {
    /// The last fence may be followed by another one; the same in all members.
    pub is_fenced: bool,
    /// All are locked (MPI_Win_lock_all), with this assertion.
    pub all: Option<i32>,
    /// Locks by rank: type and assertion.
    pub locks: BTreeMap<i32, (i32, i32)>,
    /// Between MPI_Win_start and MPI_Win_complete.
    pub has_started: bool,
    /// Between MPI_Win_post and MPI_Win_wait.
    pub has_posted: bool,
}

impl Epochs {
    /// Between start and complete, or between post and wait: a cut waits for their end.
    fn is_general(&self) -> bool {
        self.has_started || self.has_posted
    }

    /// Whether an epoch is open that excludes one between fences.
    fn is_held(&self) -> bool {
        self.all.is_some() || !self.locks.is_empty() || self.is_general()
    }

    /// Opens them on a window that has been made again. All members call it.
    pub(super) fn open(&self, win: RealWin) -> mpi::Result<()> {
        // SAFETY: a window of ours. Locks that were held at the same time do not exclude each other.
        unsafe {
            if self.is_fenced {
                check(real::PMPI_Win_fence(0, win))?;
            }
            if let Some(assert) = self.all {
                check(real::PMPI_Win_lock_all(assert, win))?;
            }
            for (&rank, &(kind, assert)) in &self.locks {
                check(real::PMPI_Win_lock(kind, rank, assert, win))?;
            }
        }
        Ok(())
    }
}

/// Whether a cut need not wait for the end of an epoch of this process.
pub fn are_quiet(rt: &Runtime) -> bool {
    !objects(rt).windows.iter().any(|(_, window)| window.epochs.is_general())
}

/// Ends all that this process has begun, here and at its targets, and keeps the epochs open. When all workers have called it, nothing is
/// under way. Collective over the members of each window.
///
/// # Errors
/// That of a real procedure.
pub fn quiesce(rt: &Runtime) -> mpi::Result<()> {
    for window in in_order(rt) {
        flush(&window)?;
        let Known { real, comm, epochs, .. } = window;
        if epochs.is_fenced {
            // Where somebody holds a lock no epoch between fences is open.
            let held = real_comm(rt, comm).extremes(Extreme::Greatest, &[epochs.is_held().into()])?;
            if held == [0] {
                // SAFETY: a window of ours; all members are here.
                check(unsafe { real::PMPI_Win_fence(0, real) })?;
            }
        }
    }
    Ok(())
}

fn flush(window: &Known) -> mpi::Result<()> {
    let Known { real, epochs, .. } = window;
    if epochs.all.is_some() {
        // SAFETY: a window of ours, in an epoch that allows it.
        check(unsafe { real::PMPI_Win_flush_all(*real) })?;
    }
    for &rank in epochs.locks.keys() {
        let rank: c_int = rank;
        // SAFETY: as above.
        check(unsafe { real::PMPI_Win_flush(rank, *real) })?;
    }
    Ok(())
}

/// Waits until all have been captured who may be written to: nobody goes on before. Collective over the members of each window.
///
/// # Errors
/// That of a real procedure.
pub fn meet_again(rt: &Runtime) -> mpi::Result<()> {
    let windows = in_order(rt);
    let widest = windows.iter().find(|window| comm::spans_all(rt, window.comm));
    let met: Vec<&Known> = match widest {
        Some(widest) => vec![widest],
        None => windows.iter().collect(),
    };
    met.into_iter()
        .try_for_each(|window| real_comm(rt, window.comm).barrier())
}
