//! Memory for the pages of the next checkpoint, made present while the program runs.
//!
//! The first access to a new page of the store takes longer than the copy into it, and the program
//! would wait for it at the checkpoint. A thread with the lowest priority accesses the pages first.

use super::own_replica::{next_epoch, replicas};
use super::replicas::Replicas;
use crate::{Runtime, headroom};
use understudy_image::PAGE_SIZE;
use understudy_image::prefault::Prefault;
use understudy_numbers::Epoch;

/// Preparation of the next checkpoint.
#[derive(Default)]
pub(super) struct Preparation {
    thread: Option<Prefault>,
    /// Bytes of the program's memory after the last commit.
    resident: u64,
    /// Next checkpoint for which [`prepare_for_growth`] was called.
    epoch: Option<Epoch>,
}

/// Prepares for as many changed pages as the last checkpoint had.
pub(super) fn prepare_for_changes(rt: &Runtime, keep: &mut Replicas, pages: u64) {
    [keep.preparation.resident, _] = headroom::resident_memory();
    prepare(rt, keep, pages);
}

/// Prepares for the pages by which the program's memory has grown since the last checkpoint.
///
/// Only the first call for each checkpoint does something.
pub fn prepare_for_growth(rt: &Runtime) {
    let next = next_epoch(rt);
    let keep = &mut *replicas(rt);
    if keep.preparation.epoch == Some(next) || keep.pending.is_some() {
        return;
    }
    keep.preparation.epoch = Some(next);
    let [resident, _] = headroom::resident_memory();
    let grown = resident.saturating_sub(keep.preparation.resident);
    prepare(rt, keep, grown / PAGE_SIZE as u64);
}

/// Ends the preparation, since the checkpoint begins.
pub fn end_preparation(rt: &Runtime) {
    replicas(rt).preparation.thread = None;
}

fn prepare(rt: &Runtime, keep: &mut Replicas, pages: u64) {
    keep.preparation.thread = None;
    if headroom::check_room(rt, pages * PAGE_SIZE as u64).is_err() {
        return;
    }
    let untouched = keep.store.take_untouched(pages);
    if !untouched.is_empty() {
        keep.preparation.thread = Some(Prefault::start_beside_program(
            untouched,
            headroom::is_memory_released,
        ));
    }
}
