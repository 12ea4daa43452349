//! Memory for the pages of the next checkpoint, made present while the program runs.
//!
//! The first access to a new page of the store takes longer than the copy into it, and the program
//! would wait for it at the checkpoint. A thread with the lowest priority accesses the pages first,
//! in the second half of an interval.
#![allow(unsafe_code)]

use crate::headroom;
use understudy_image::PAGE_SIZE;
use understudy_image::prefault::Prefault;
use understudy_image::store::PageStore;
use understudy_job::Runtime;
use understudy_numbers::Epoch;

/// Preparation of the next checkpoint.
#[derive(Default)]
pub(super) struct Preparation {
    thread: Option<Prefault>,
    /// Use of memory at the last capture.
    captured: MemoryUse,
    /// Last checkpoint that was prepared.
    epoch: Option<Epoch>,
}

impl Preparation {
    /// Begins an interval, after a capture.
    pub(super) fn begin_interval(&mut self) {
        self.captured = MemoryUse::now();
    }

    /// Makes memory present for the pages that the program has probably changed.
    ///
    /// The number of page faults estimates the number of changed pages: the first write to a page
    /// after a capture is a page fault, because the page is write-protected or new. `known` is the
    /// number of pages of the last checkpoint. Only the first call for each checkpoint does
    /// something.
    pub(super) fn prepare(&mut self, rt: &Runtime, next: Epoch, known: u64, store: &mut PageStore) {
        if self.epoch == Some(next) {
            return;
        }
        self.epoch = Some(next);
        let now = MemoryUse::now();
        let grown = now.resident.saturating_sub(self.captured.resident);
        let faults = now.faults.saturating_sub(self.captured.faults);
        // Faults in other memory are counted, too. But no page is captured twice, so the known and
        // the new pages are an upper limit.
        let pages = faults.min(known + grown).max(grown);
        if headroom::check_room(rt, pages * PAGE_SIZE as u64).is_ok() {
            self.thread = Some(Prefault::start_beside_program(
                store.take_untouched(pages),
                headroom::is_memory_released,
            ));
        }
    }

    /// Ends the preparation, since a cut begins.
    pub(super) fn end(&mut self) {
        self.thread = None;
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
