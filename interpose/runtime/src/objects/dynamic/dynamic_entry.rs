//! The entry of ports in the table, and counts of spawned processes.

use super::ports::Dynamic;
use crate::objects::{Runtime, objects, objects_mut};
use std::cell::{Ref, RefMut};

/// Those of this process.
pub fn get(rt: &Runtime) -> Ref<'_, Dynamic> {
    Ref::map(objects(rt), |all| &all.dynamic)
}

/// The same, to be changed.
pub fn get_mut(rt: &Runtime) -> RefMut<'_, Dynamic> {
    RefMut::map(objects_mut(rt), |all| &mut all.dynamic)
}

/// The state of now is captured: up to which time processes that were spawned may not go back any more, if that is news.
pub fn captured(rt: &Runtime) -> Option<u64> {
    let (spawns, (_, settled)) = (get(rt).spawns, rt.spawns.get());
    rt.spawns.set((spawns, settled));
    (spawns > settled).then_some(spawns)
}

/// This process has gone back: how often it had spawned processes where it goes on.
pub fn went_back(rt: &Runtime) -> u64 {
    let spawns = get(rt).spawns;
    rt.spawns.set((spawns, spawns));
    spawns
}

/// What was captured last is committed: up to which time processes that were spawned never go back any more, if that is news.
pub fn settled(rt: &Runtime) -> Option<u64> {
    let (captured, settled) = rt.spawns.get();
    rt.spawns.set((captured, captured.max(settled)));
    (captured > settled).then_some(captured)
}
