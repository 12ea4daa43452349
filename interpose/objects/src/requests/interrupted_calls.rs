//! Requests of blocking calls that are repeated.
//!
//! A call is repeated after a rollback, or after it has yielded the MPI lock.

use super::request_borrows::{table, table_mut};
use super::request_entries::index;
use crate::Runtime;
use crate::arch::{self, turn};
use crate::attention::{self, RESUMES, SEVERAL};
use crate::generated::HandleKind;
use crate::handles::{self, VirtRequest};

/// Records the requests that the blocking call of this thread has started.
///
/// The call uses them when it is repeated: after it has yielded the MPI lock, or after a rollback
/// to a cut during the call.
pub fn begin(rt: &Runtime, requests: [Option<VirtRequest>; 2]) {
    if arch::top_frame().is_some() {
        let indices = requests.map(|request| index(rt, request?));
        has_ended(rt);
        table_mut(rt).begun.push((turn::block() as u64, indices));
    }
}

/// Returns the requests that this call has started before, if it is repeated.
pub fn resume(rt: &Runtime) -> Option<[Option<VirtRequest>; 2]> {
    if !attention::is(RESUMES | SEVERAL) {
        return None;
    }
    let own = turn::block() as u64;
    let table = table(rt);
    let (_, begun) = table.begun.iter().find(|(thread, _)| *thread == own)?;
    let handle = |index| VirtRequest(handles::virtual_handle(HandleKind::Request, index));
    Some(begun.map(|begun| begun.map(handle)))
}

/// Records that the blocking call of this thread is complete.
pub fn has_ended(rt: &Runtime) {
    let own = turn::block() as u64;
    let mut table = table_mut(rt);
    table.begun.retain(|(thread, _)| *thread != own);
    if table.begun.is_empty() {
        attention::clear(RESUMES);
    }
}
