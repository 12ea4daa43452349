//! Drained messages of this process: saved, replaced and dropped.

use super::drained_message::DrainedMessage;
use crate::Runtime;
use crate::control_messages::SendQueue;
use crate::handles::VirtComm;
use crate::requests;
use std::cell::Ref;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if there are drained messages.
///
/// Every receive reads this flag instead of borrowing the list.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// Changes the list, and keeps [`HAS_ANY`] up to date.
pub(super) fn change<T>(rt: &Runtime, edit: impl FnOnce(&mut Vec<DrainedMessage>) -> T) -> T {
    let mut list = rt.drained.messages.borrow_mut();
    let outcome = edit(&mut list);
    HAS_ANY.store(!list.is_empty(), Ordering::Relaxed);
    outcome
}

/// Returns the drained messages, which are saved with a cut.
pub fn list(rt: &Runtime) -> Ref<'_, Vec<DrainedMessage>> {
    rt.drained.messages.borrow()
}

pub fn add(rt: &Runtime, drained: DrainedMessage) {
    change(rt, |list| list.push(drained));
}

/// Replaces the drained messages by saved ones.
pub fn replace(rt: &Runtime, saved: Vec<DrainedMessage>) {
    rt.drained.notifications.set(SendQueue::NONE);
    change(rt, |list| *list = saved);
}

/// True if a communicator has requests, or matched messages in the real library.
///
/// Drained messages are in the runtime's memory, and do not need the communicator.
pub fn is_comm_in_use(rt: &Runtime, comm: VirtComm) -> bool {
    requests::has_requests_on(rt, comm)
        || rt
            .drained
            .matched
            .borrow()
            .iter()
            .flatten()
            .any(|matched| matched.comm == comm)
}

/// Drops the drained messages of a communicator that the program has freed.
///
/// Otherwise a later communicator with that handle would receive them.
pub fn drop_on(rt: &Runtime, comm: VirtComm) {
    if has_any() {
        change(rt, |list| {
            list.retain(|drained| drained.claimed.is_some() || drained.comm != comm.0 as u64);
        });
    }
}

/// True if there are drained messages.
#[inline]
pub fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}
