//! Memory for the pages of the next checkpoint, made present while the program runs.
//!
//! The first access to a new page of the store takes longer than the copy into it, and the program
//! would wait for it at the checkpoint. A thread with the lowest priority accesses the pages first,
//! in the second half of an interval.
#![allow(unsafe_code)]

use super::own_replica::{next_epoch, replicas};
use crate::{Runtime, headroom};
use understudy_image::PAGE_SIZE;
use understudy_image::prefault::Prefault;
use understudy_numbers::Epoch;

/// Preparation of the next checkpoint.
#[derive(Default)]
pub(super) struct Preparation {
    thread: Option<Prefault>,
    /// Use of memory at the last capture.
    captured: MemoryUse,
    /// Next checkpoint for which [`prepare`] was called.
    epoch: Option<Epoch>,
}

impl Preparation {
    /// Begins an interval, after a capture.
    pub(super) fn begin_interval(&mut self) {
        self.captured = MemoryUse::now();
    }
}

/// Use of memory by this process.
#[derive(Clone, Copy, Default)]
struct MemoryUse {
    /// Anonymous pages.
    resident: u64,
    /// Page faults without a disk access since the start.
    faults: u64,
}

impl MemoryUse {
    fn now() -> MemoryUse {
        // SAFETY: getrusage(2) fills a structure of integers, for which zero is a valid value.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let [resident, _] = headroom::resident_memory();
        MemoryUse {
            resident: resident / PAGE_SIZE as u64,
            faults: usage.ru_minflt as u64,
        }
    }
}

/// Makes memory present for as many pages as the program has probably changed in this interval.
///
/// The first write to a page after a capture is a page fault, because of the write protection or of
/// new memory. Only the first call for each checkpoint does something.
pub fn prepare(rt: &Runtime) {
    let next = next_epoch(rt);
    let keep = &mut *replicas(rt);
    if keep.preparation.epoch == Some(next) || keep.pending.is_some() {
        return;
    }
    keep.preparation.epoch = Some(next);
    let (before, now) = (keep.preparation.captured, MemoryUse::now());
    let grown = now.resident.saturating_sub(before.resident);
    // Faults that concern other memory count too, but no page is captured twice.
    let most = keep.own.image.page_count() + grown;
    let pages = now
        .faults
        .saturating_sub(before.faults)
        .min(most)
        .max(grown);
    if headroom::check_room(rt, pages * PAGE_SIZE as u64).is_ok() {
        let untouched = keep.store.take_untouched(pages);
        keep.preparation.thread = Some(Prefault::start_beside_program(
            untouched,
            headroom::is_memory_released,
        ));
    }
}

/// Ends the preparation, since the checkpoint begins.
pub fn end_preparation(rt: &Runtime) {
    replicas(rt).preparation.thread = None;
}
