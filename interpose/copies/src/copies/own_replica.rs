//! Borrows of the replicas of this process, and its own replica.

use super::copy::{Copy, State};
use super::replicas::Replicas;
use crate::{Runtime, sys};
use std::cell::RefMut;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_image::epoch::Image;
use understudy_numbers::Epoch;

/// Borrows the replicas of this process, which are created at the first use.
#[track_caller]
pub fn keep(rt: &Runtime) -> RefMut<'_, Replicas> {
    RefMut::map(rt.copies.keep.borrow_mut(), |keep| {
        keep.get_or_insert_with(|| Replicas::new(rt))
    })
}

/// Borrows the replicas; `None` if they are in use.
///
/// The inner value is `None` before the first use.
pub fn try_keep(rt: &Runtime) -> Option<RefMut<'_, Option<Replicas>>> {
    rt.copies.keep.try_borrow_mut()
}

/// Returns the number of the last committed epoch; 0 before the first.
pub fn epoch(rt: &Runtime) -> Epoch {
    rt.copies
        .keep
        .borrow()
        .as_ref()
        .map_or(Epoch::NONE, |keep| keep.own.image.epoch())
}

/// Returns the number of the epoch that is or will be pending.
pub fn next_epoch(rt: &Runtime) -> Epoch {
    epoch(rt).next()
}

/// Returns the time since the program was at the cut of the committed epoch.
pub fn age(rt: &Runtime) -> Duration {
    keep(rt).since.elapsed()
}

/// Replaces this rank's committed epoch by one that was read from the disk.
pub fn replace_own(rt: &Runtime, image: Image, state: Vec<u8>) {
    let state = State::new(state);
    let keep = &mut *keep(rt);
    keep.own.replace(
        Copy {
            image,
            state,
            script: None,
        },
        &mut keep.store,
    );
}

/// Frees all replicas; afterwards no recovery is possible.
pub fn discard(rt: &Runtime) {
    let discarded = |keep: &mut Replicas| keep.store.discard();
    if let Some(Err(error)) = rt.copies.keep.borrow_mut().as_mut().map(discarded) {
        log::warn!("{}", message::replicas_not_freed(sys::chain(&error)));
    }
}
