//! Borrows of the replicas of this process, and its own replica.

use super::replica::{EncodedState, Replica};
use super::replicas::Replicas;
use crate::{Runtime, system_calls};
use std::cell::RefMut;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_image::image_delta::Image;
use understudy_numbers::Epoch;

/// Borrows the replicas of this process, which are created at the first use.
#[track_caller]
pub fn replicas(rt: &Runtime) -> RefMut<'_, Replicas> {
    RefMut::map(rt.copies.keep.borrow_mut(), |keep| {
        keep.get_or_insert_with(|| Replicas::new(rt))
    })
}

/// Borrows the replicas; `None` if they are in use.
///
/// The inner value is `None` before the first use.
pub fn try_replicas(rt: &Runtime) -> Option<RefMut<'_, Option<Replicas>>> {
    rt.copies.keep.try_borrow_mut()
}

/// Returns the number of the last committed epoch; 0 before the first.
pub fn committed_epoch(rt: &Runtime) -> Epoch {
    rt.copies
        .keep
        .borrow()
        .as_ref()
        .map_or(Epoch::NONE, |keep| keep.own.image.epoch())
}

/// Returns the number of the epoch that is or will be pending.
pub fn next_epoch(rt: &Runtime) -> Epoch {
    committed_epoch(rt).next()
}

/// Returns the time since the program was at the cut of the committed epoch.
pub fn committed_age(rt: &Runtime) -> Duration {
    replicas(rt).committed_at.elapsed()
}

/// Replaces this rank's committed epoch by one that was read from the disk.
pub fn replace_own(rt: &Runtime, image: Image, state: Vec<u8>) {
    let state = EncodedState::new(state);
    let keep = &mut *replicas(rt);
    keep.own.replace(
        Replica {
            image,
            state,
            replay_plan: None,
        },
        &mut keep.store,
    );
}

/// Frees all replicas; afterwards no recovery is possible.
pub fn discard_all(rt: &Runtime) {
    let discarded = |keep: &mut Replicas| keep.store.discard_content();
    if let Some(Err(error)) = rt.copies.keep.borrow_mut().as_mut().map(discarded) {
        log::warn!(
            "{}",
            message::replicas_not_freed(system_calls::error_chain(&error))
        );
    }
}
