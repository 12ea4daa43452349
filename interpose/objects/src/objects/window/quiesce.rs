//! Windows at a cut: all operations that were started in open epochs are completed.
#![allow(unsafe_code)]

use super::passive;
use super::window_entries::{OrderedWindow, handle, in_order};
use crate::Runtime;
use crate::generated::real;
use crate::handles::real_comm;
use crate::objects::comm;
use understudy_mpi::comm::Extreme;
use understudy_mpi::{self as mpi, check};

/// Completes all one-sided operations of this process, locally and at their targets.
///
/// The epochs stay open. When all workers have called this function, no operation is in flight.
/// Collective over the members of each window. Returns false if fences are open in some workers and
/// not in others: the workers are at different points, so no cut is taken.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn quiesce(rt: &Runtime) -> mpi::Result<bool> {
    let mut is_consistent = true;
    for window in in_order(rt) {
        flush(rt, &window)?;
        let OrderedWindow {
            real, comm, epochs, ..
        } = window;
        let flags = [epochs.is_fenced, !epochs.is_fenced, epochs.excludes_fence()].map(u64::from);
        match real_comm(rt, comm).allreduce_min_max(Extreme::Greatest, &flags)?[..] {
            // Some members are fenced, and some are not.
            [1, 1, _] => is_consistent = false,
            // SAFETY: all members of the window make this call. No process has an epoch that
            // excludes an epoch between fences.
            [1, _, 0] => check(unsafe { real::PMPI_Win_fence(0, real) })?,
            _ => {}
        }
    }
    Ok(is_consistent)
}

fn flush(rt: &Runtime, window: &OrderedWindow) -> mpi::Result<()> {
    let OrderedWindow { real, epochs, .. } = window;
    let epochs = match passive::with_own_locks(rt, handle(window.index)) {
        Ok(Some(own)) => &own.library_epochs().open_among(epochs.clone()),
        _ => epochs,
    };
    if epochs.all.is_some() {
        // SAFETY: a window of the runtime, in an epoch that allows the call.
        check(unsafe { real::PMPI_Win_flush_all(*real) })?;
    }
    for rank in epochs.locks.ranks() {
        // SAFETY: a window of the runtime, in an epoch with a lock of this rank.
        check(unsafe { real::PMPI_Win_flush(rank, *real) })?;
    }
    Ok(())
}

/// Blocks until all members whose memory other processes may write have been captured.
///
/// No member continues earlier. Collective over the members of each window.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn wait_for_captures(rt: &Runtime) -> mpi::Result<()> {
    let windows = in_order(rt);
    // One barrier of all workers suffices.
    let window_of_all = windows
        .iter()
        .find(|window| comm::spans_all(rt, window.comm));
    let barriers: Vec<&OrderedWindow> = match window_of_all {
        Some(window) => vec![window],
        None => windows.iter().collect(),
    };
    barriers
        .into_iter()
        .try_for_each(|window| real_comm(rt, window.comm).barrier())
}
