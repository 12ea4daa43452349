//! The end of all requests after a failure.
#![allow(unsafe_code)]

use super::{Kind, active, get, with_real};
use crate::errors::SUCCESS;
use crate::generated::real;
use std::time::{Duration, Instant};
use understudy_mpi::ulfm;

fn is_send(index: u32) -> bool {
    matches!(
        get(index).map(|request| request.kind),
        Some(Kind::Send | Kind::PersistentSend(..))
    )
}

/// After a failure: drives every active real request to its end, so that nothing writes into the program's memory any more.
/// Returns how many could not be ended within `limit`.
///
/// Sends are not waited for. One whose message was matched by its receiver and not received (`MPI_Mprobe`, or in the middle
/// of a drain) would never end: Open MPI tells its sender nothing when the communicator is revoked. What is being received is
/// waited for by the receiver; when all have met, nobody reads from here any more, and what is left is given up.
pub fn quiesce(limit: Duration) -> usize {
    let start = Instant::now();
    let mut pending = active(|_| true);
    for &index in &pending {
        // (Cancelling a send would free what a message to a dead process uses before its queue has been read.)
        let is_receive = matches!(
            get(index).map(|request| request.kind),
            Some(Kind::Receive(_) | Kind::PersistentReceive(_))
        );
        if is_receive {
            // SAFETY: an active real request; cancelling a receive that has matched has no effect.
            with_real(index, |request| unsafe { real::PMPI_Cancel(request) });
        }
    }
    let must_end = |pending: &[u32]| pending.iter().any(|&index| !is_send(index));
    loop {
        pending.retain(|&index| {
            let mut flag = 0;
            // SAFETY: an active real request; an error ends it as well, except that an any-source receive stays posted.
            let test = |request: &mut _| unsafe { real::PMPI_Test(request, &mut flag, std::ptr::null_mut()) };
            let rc = with_real(index, test);
            let ended = flag != 0 || (rc != SUCCESS && rc != ulfm::ERR_PROC_FAILED_PENDING);
            !ended
        });
        if !must_end(&pending) || start.elapsed() >= limit {
            break;
        }
    }
    let sends = pending.iter().filter(|&&index| is_send(index)).count();
    if sends > 0 {
        log::debug!("{sends} sends are given up");
    }
    pending.len() - sends
}
