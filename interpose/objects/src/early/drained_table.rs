//! Drained messages of this process: saved, replaced and dropped.

use super::drained_message::Early;
use crate::Runtime;
use crate::handles::VirtComm;
use crate::own_messages::Told;
use crate::requests;
use std::cell::Ref;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if there may be drained messages.
///
/// Every receive reads this flag.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

pub(super) fn change<T>(rt: &Runtime, how: impl FnOnce(&mut Vec<Early>) -> T) -> T {
    let mut list = rt.early.messages.borrow_mut();
    let outcome = how(&mut list);
    HAS_ANY.store(!list.is_empty(), Ordering::Relaxed);
    outcome
}

/// Returns the drained messages, which are saved with a cut.
pub fn list(rt: &Runtime) -> Ref<'_, Vec<Early>> {
    rt.early.messages.borrow()
}

pub fn add(rt: &Runtime, early: Early) {
    change(rt, |list| list.push(early));
}

/// Replaces the drained messages by saved ones.
pub fn replace(rt: &Runtime, saved: Vec<Early>) {
    rt.early.told.set(Told::NONE);
    change(rt, |list| *list = saved);
}

/// True if the program has requests or matched messages on a communicator.
pub fn is_used(rt: &Runtime, comm: VirtComm) -> bool {
    requests::are_on(rt, comm)
        || rt
            .early
            .matched
            .borrow()
            .iter()
            .flatten()
            .any(|matched| matched.comm == comm)
}

/// Drops the drained messages of a communicator that the program has freed.
///
/// No later communicator with that handle receives them.
pub fn drop_on(rt: &Runtime, comm: VirtComm) {
    if has_any() {
        change(rt, |list| {
            list.retain(|early| early.claimed.is_some() || early.comm != comm.0 as u64);
        });
    }
}

/// True if there are drained messages.
#[inline]
pub fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}
