//! Started partitioned sends, until all their partitions are ready.

use super::request::RequestState;
use super::request_entries::set_state;
use crate::Runtime;

/// Records the start of a partitioned send.
///
/// The request stays open until all partitions are ready. Until then the library is not polled,
/// because Open MPI 5.0 would report the request as complete too early.
pub fn record_start(rt: &Runtime, index: u32, partitions: u64) {
    set_state(rt, index, RequestState::Open);
    let unready = &mut rt.requests.table.borrow_mut().unready;
    unready.retain(|(request, _)| *request != index);
    unready.push((index, partitions));
}

/// Records that `count` more partitions of a send are ready.
pub fn record_ready(rt: &Runtime, index: u32, count: u64) {
    let is_whole = {
        let unready = &mut rt.requests.table.borrow_mut().unready;
        unready
            .iter_mut()
            .filter(|(request, _)| *request == index)
            .for_each(|(_, left)| *left = left.saturating_sub(count));
        let before = unready.len();
        unready.retain(|(_, left)| *left > 0);
        unready.len() < before
    };
    if is_whole {
        set_state(rt, index, RequestState::Active);
    }
}

/// True if a started partitioned send has partitions that are not ready.
pub fn has_unready(rt: &Runtime) -> bool {
    !rt.requests.table.borrow().unready.is_empty()
}
