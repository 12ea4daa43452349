//! Entry of the ports in the table, and counts of spawns.
//!
//! The program repeats the spawns that follow the cut of a rollback, so the node manager kills the
//! processes of these spawns. Processes of spawns that precede a committed cut are not killed. The
//! node manager therefore needs the number of spawns at each capture, commit and rollback.

use super::ports::ConnectionState;
use super::spawn_counts::SpawnCounts;
use crate::Runtime;
use crate::objects::{objects, objects_mut};
use std::cell::{Ref, RefMut};

/// Borrows the ports of this process.
pub fn get(rt: &Runtime) -> Ref<'_, ConnectionState> {
    Ref::map(objects(rt), |all| &all.dynamic)
}

/// Borrows the ports of this process to change them.
pub fn get_mut(rt: &Runtime) -> RefMut<'_, ConnectionState> {
    RefMut::map(objects_mut(rt), |all| &mut all.dynamic)
}

/// Records a capture of the present state.
///
/// Returns the number of spawns in the captured state, if it is greater than in the committed
/// state.
pub fn record_capture(rt: &Runtime) -> Option<u64> {
    let captured = get(rt).spawns;
    let counts = SpawnCounts {
        captured,
        ..rt.objects.spawns.get()
    };
    rt.objects.spawns.set(counts);
    (captured > counts.committed).then_some(captured)
}

/// Records a rollback, and returns the number of spawns in the restored state.
pub fn record_rollback(rt: &Runtime) -> u64 {
    let spawns = get(rt).spawns;
    rt.objects.spawns.set(SpawnCounts {
        captured: spawns,
        committed: spawns,
    });
    spawns
}

/// Records that the last captured state is committed.
///
/// Returns the number of spawns in this state, if it is greater than in the state that was
/// committed before.
pub fn record_commit(rt: &Runtime) -> Option<u64> {
    let SpawnCounts {
        captured,
        committed,
    } = rt.objects.spawns.get();
    rt.objects.spawns.set(SpawnCounts {
        captured,
        committed: captured.max(committed),
    });
    (captured > committed).then_some(captured)
}
