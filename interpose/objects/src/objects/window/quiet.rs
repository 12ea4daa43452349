//! Windows at a cut: everything that was begun in open epochs has arrived.
#![allow(unsafe_code)]

use super::passive;
use super::window_entries::{Known, handle, in_order};
use crate::Runtime;
use crate::generated::real;
use crate::handles::real_comm;
use crate::objects::comm;
use understudy_mpi::comm::Extreme;
use understudy_mpi::{self as mpi, check};

/// Ends all that this process has begun, here and at its targets, and keeps the epochs open. When
/// all workers have called it, nothing is under way. Collective over the members of each window.
/// Whether fences are open everywhere or nowhere: where some workers have come further than others,
/// there is no cut.
///
/// # Errors
/// That of a real procedure.
pub fn quiesce(rt: &Runtime) -> mpi::Result<bool> {
    let mut are_even = true;
    for window in in_order(rt) {
        flush(rt, &window)?;
        let Known {
            real, comm, epochs, ..
        } = window;
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

fn flush(rt: &Runtime, window: &Known) -> mpi::Result<()> {
    let Known { real, epochs, .. } = window;
    let epochs = match passive::own(rt, handle(window.index)) {
        Ok(Some(own)) => &own.told().known(epochs.clone()),
        _ => epochs,
    };
    if epochs.all.is_some() {
        // SAFETY: a window of ours, in an epoch that allows it.
        check(unsafe { real::PMPI_Win_flush_all(*real) })?;
    }
    for rank in epochs.locks.ranks() {
        // SAFETY: as above.
        check(unsafe { real::PMPI_Win_flush(rank, *real) })?;
    }
    Ok(())
}

/// Waits until all have been captured who may be written to: nobody goes on before. Collective over
/// the members of each window.
///
/// # Errors
/// That of a real procedure.
pub fn meet_again(rt: &Runtime) -> mpi::Result<()> {
    let windows = in_order(rt);
    let widest = windows
        .iter()
        .find(|window| comm::spans_all(rt, window.comm));
    let met: Vec<&Known> = match widest {
        Some(widest) => vec![widest],
        None => windows.iter().collect(),
    };
    met.into_iter()
        .try_for_each(|window| real_comm(rt, window.comm).barrier())
}
