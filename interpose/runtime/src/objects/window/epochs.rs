//! Open epochs of windows: at a cut everything that was begun in them has arrived.
#![allow(unsafe_code)]

use super::{Known, in_order};
use crate::generated::real;
use crate::handles::real_comm;
use crate::objects::Runtime;
use crate::objects::comm;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Locks by rank, those of targets too: type and assertion.
    pub locks: BTreeMap<i32, (i32, i32)>,
    /// The targets between MPI_Win_start and MPI_Win_complete.
    pub targets: Option<Vec<i32>>,
    /// The origins between MPI_Win_post and MPI_Win_wait.
    pub origins: Option<Vec<i32>>,
    /// Who has posted, and nobody has asked for that yet.
    pub exposed: BTreeSet<i32>,
    /// Who has completed, and nobody has asked for that yet.
    pub done: BTreeSet<i32>,
}

impl Epochs {
    /// Between start and complete, or between post and wait.
    pub fn are_general(&self) -> bool {
        self.targets.is_some() || self.origins.is_some()
    }

    /// Whether this process may access a member's part.
    pub fn admit(&self, rank: c_int) -> bool {
        let is_target = || self.targets.as_ref().is_some_and(|targets| targets.contains(&rank));
        self.is_fenced || self.all.is_some() || self.locks.contains_key(&rank) || is_target()
    }

    /// Whether a lock is held: on a rank, or on any.
    pub(super) fn are_passive(&self, rank: Option<c_int>) -> bool {
        self.all.is_some() || rank.map_or(!self.locks.is_empty(), |rank| self.locks.contains_key(&rank))
    }

    /// Whether an epoch is open that excludes one between fences.
    fn is_held(&self) -> bool {
        self.all.is_some() || !self.locks.is_empty() || self.are_general()
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

/// Ends all that this process has begun, here and at its targets, and keeps the epochs open. When all workers have called it, nothing is
/// under way. Collective over the members of each window. Whether fences are open everywhere or nowhere: where some workers have come
/// further than others, there is no cut.
///
/// # Errors
/// That of a real procedure.
pub fn quiesce(rt: &Runtime) -> mpi::Result<bool> {
    let mut are_even = true;
    for window in in_order(rt) {
        flush(&window)?;
        let Known { real, comm, epochs, .. } = window;
        let says = [epochs.is_fenced, !epochs.is_fenced, epochs.is_held()].map(u64::from);
        match real_comm(rt, comm).extremes(Extreme::Greatest, &says)?[..] {
            [1, 1, _] => are_even = false,
            // Where somebody holds a lock no epoch between fences is open.
            // SAFETY: a window of ours; all members are here.
            [1, _, 0] => check(unsafe { real::PMPI_Win_fence(0, real) })?,
            _ => {}
        }
    }
    Ok(are_even)
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
