//! Memory that the next checkpoint needs in this process.

use super::exposed_pages::expose_landings;
use super::own_replica::replicas;
use super::replicas::Replicas;
use crate::Runtime;
use crate::headroom;
use crate::{system_calls, user};
use understudy_image::PAGE_SIZE;
use understudy_image::layout::Layout;
use understudy_policy::memory_demand::MemoryClaim;

/// Returns the memory claim of this worker for the checkpoint at the present call.
///
/// The program must be stopped.
pub fn claim(rt: &Runtime) -> MemoryClaim {
    let keep = &mut *replicas(rt);
    if let Some(persistent) = &keep.persistent_store {
        headroom::watch(rt, persistent.files());
    }
    let [anonymous, other] = headroom::resident_memory();
    let of_copies = keep.store.peak() * PAGE_SIZE as u64;
    let most = (anonymous + other.saturating_sub(of_copies)) / PAGE_SIZE as u64;
    headroom::claim(rt, most, || free_and_count(keep))
}

/// Frees unused memory of replicas and counts the pages that a capture would copy.
///
/// Returns `None` on an error, which the capture would also encounter.
fn free_and_count(keep: &mut Replicas) -> Option<u64> {
    if let Err(error) = keep.store.give_back(0) {
        log::debug!(
            "memory of replicas is not freed: {}",
            system_calls::error_chain(&error)
        );
    }
    let layout = Layout::read_self(user::zones()).ok()?;
    let (tracker, image) = (&mut keep.tracker, &keep.own.image);
    expose_landings(tracker);
    tracker.count_changed(&layout, image, &keep.store).ok()
}
