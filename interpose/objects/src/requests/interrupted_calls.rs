//! Requests of blocking calls that are repeated.
//!
//! A call is repeated after a rollback, or after it has yielded the MPI lock.

use super::request_borrows::{table, table_mut};
use super::request_entries::index;
use crate::Runtime;
use crate::arch::{self, mpi_lock};
use crate::generated::HandleKind;
use crate::handles::{self, VirtRequest};
use crate::work_flags::{self, MULTIPLE_THREADS, RESUMES};

/// Records the requests that the blocking call of this thread has started.
///
/// The call uses them when it is repeated: after it has yielded the MPI lock, or after a rollback
/// to a cut during the call.
pub fn record_call(rt: &Runtime, requests: [Option<VirtRequest>; 2]) {
    if arch::top_frame().is_some() {
        let indices = requests.map(|request| index(rt, request?));
        clear_call(rt);
        table_mut(rt)
            .blocking_calls
            .push((mpi_lock::current_block() as u64, indices));
    }
}

/// Returns the requests that this call has started before, if it is repeated.
pub fn resume(rt: &Runtime) -> Option<[Option<VirtRequest>; 2]> {
    if !work_flags::is_set(RESUMES | MULTIPLE_THREADS) {
        return None;
    }
    let own = mpi_lock::current_block() as u64;
    let table = table(rt);
    let (_, begun) = table
        .blocking_calls
        .iter()
        .find(|(thread, _)| *thread == own)?;
    let handle = |index| VirtRequest(handles::virtual_handle(HandleKind::Request, index));
    Some(begun.map(|begun| begun.map(handle)))
}

/// Records that the blocking call of this thread is complete.
pub fn clear_call(rt: &Runtime) {
    let own = mpi_lock::current_block() as u64;
    let mut table = table_mut(rt);
    table.blocking_calls.retain(|(thread, _)| *thread != own);
    if table.blocking_calls.is_empty() {
        work_flags::clear(RESUMES);
    }
}
