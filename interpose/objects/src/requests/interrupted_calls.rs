//! Requests of blocking calls that are repeated.
//!
//! A blocking call is made again in two cases: after a rollback to a cut that was taken during the
//! call, and after the call has yielded the MPI lock. The repeated call must use the requests that
//! were started when the call was first made.

use super::request_borrows::{table, table_mut};
use super::request_entries::index;
use crate::Runtime;
use crate::arch::{self, mpi_lock};
use crate::generated::HandleKind;
use crate::handles::{self, VirtRequest};
use crate::work_flags::{self, MULTIPLE_THREADS, RESUMES};

/// Records the requests that the blocking call of this thread has started.
///
/// The call gets them from [`resume`] when it is repeated.
pub fn record_call(rt: &Runtime, requests: [Option<VirtRequest>; 2]) {
    if arch::top_frame().is_some() {
        let indices = requests.map(|request| index(rt, request?));
        clear_call(rt);
        table_mut(rt)
            .blocking_calls
            .push((mpi_lock::current_block() as u64, indices));
    }
}

/// Returns the requests that this call has already started, if the call is repeated.
pub fn resume(rt: &Runtime) -> Option<[Option<VirtRequest>; 2]> {
    if !work_flags::is_set(RESUMES | MULTIPLE_THREADS) {
        return None;
    }
    let thread = mpi_lock::current_block() as u64;
    let table = table(rt);
    let (_, requests) = table
        .blocking_calls
        .iter()
        .find(|(owner, _)| *owner == thread)?;
    let handle = |index| VirtRequest(handles::virtual_handle(HandleKind::Request, index));
    Some(requests.map(|requests| requests.map(handle)))
}

/// Records that the blocking call of this thread is complete.
pub fn clear_call(rt: &Runtime) {
    let thread = mpi_lock::current_block() as u64;
    let mut table = table_mut(rt);
    table.blocking_calls.retain(|(owner, _)| *owner != thread);
    if table.blocking_calls.is_empty() {
        work_flags::clear(RESUMES);
    }
}
