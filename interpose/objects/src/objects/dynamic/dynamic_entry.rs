//! Entry of the ports in the table, and counts of spawned processes.

use super::ports::Dynamic;
use crate::Runtime;
use crate::objects::{objects, objects_mut};
use std::cell::{Ref, RefMut};

/// Borrows the ports of this process.
pub fn get(rt: &Runtime) -> Ref<'_, Dynamic> {
    Ref::map(objects(rt), |all| &all.dynamic)
}

/// Borrows the ports of this process to change them.
pub fn get_mut(rt: &Runtime) -> RefMut<'_, Dynamic> {
    RefMut::map(objects_mut(rt), |all| &mut all.dynamic)
}

/// Records a capture of the present state.
///
/// Returns the number of spawns that may not be rolled back any more, if it has grown.
pub fn captured(rt: &Runtime) -> Option<u64> {
    let (spawns, (_, settled)) = (get(rt).spawns, rt.objects.spawns.get());
    rt.objects.spawns.set((spawns, settled));
    (spawns > settled).then_some(spawns)
}

/// Records that this process has been rolled back, and returns its number of spawns there.
pub fn went_back(rt: &Runtime) -> u64 {
    let spawns = get(rt).spawns;
    rt.objects.spawns.set((spawns, spawns));
    spawns
}

/// Records that the last capture is committed.
///
/// Returns the number of spawns that are never rolled back any more, if it has grown.
pub fn settled(rt: &Runtime) -> Option<u64> {
    let (captured, settled) = rt.objects.spawns.get();
    rt.objects.spawns.set((captured, captured.max(settled)));
    (captured > settled).then_some(captured)
}
