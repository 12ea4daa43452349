//! Writes that the kernel's tracking does not report, for tests.
//!
//! A network device writes into memory that was pinned before tracking was armed, and its pages
//! stay write-protected (`tests/device_writes.rs`). [`BlindWrites`] produces the same state without
//! a device: pages that were protected before the writes are protected again after them.

use super::kernel::{Pagemap, ScanFilter, category as cat};
use super::pages::{self, AddrRange, PageRun};
use std::io;
use understudy_abi::{ZONE_END, ZONE_START};

/// End of the addresses of a process (x86-64 with four levels of page tables).
const TASK_END: u64 = 0x7fff_ffff_f000;

/// Addresses outside of the reserved range.
const RANGES: [AddrRange; 2] = [
    AddrRange::new(0, ZONE_START as u64),
    AddrRange::new(ZONE_END as u64, TASK_END),
];

/// Pages that are unprotected before the writes.
pub struct BlindWrites {
    pagemap: Pagemap,
    before: Vec<PageRun>,
}

impl BlindWrites {
    /// Returns the state of a process without blind writes.
    ///
    /// # Errors
    /// Errors of open(2).
    pub fn new() -> io::Result<BlindWrites> {
        Ok(BlindWrites {
            pagemap: Pagemap::open()?,
            before: Vec::new(),
        })
    }

    /// Records the present state of the pages.
    ///
    /// # Errors
    /// Errors of `PAGEMAP_SCAN`.
    pub fn begin(&mut self) -> io::Result<()> {
        self.before = self.unprotected()?;
        Ok(())
    }

    /// Protects the pages again that were written since the last call of a method.
    ///
    /// # Errors
    /// Errors of `PAGEMAP_SCAN`.
    pub fn end(&mut self) -> io::Result<()> {
        let now = self.unprotected()?;
        for run in pages::subtract(&now, &self.before) {
            self.pagemap.protect(run.range())?;
        }
        self.before = pages::intersect(&now, &self.before);
        Ok(())
    }

    /// Returns the tracked pages that count as written.
    fn unprotected(&mut self) -> io::Result<Vec<PageRun>> {
        let filter = ScanFilter {
            all: cat::WRITTEN | cat::WPALLOWED,
            any: cat::PRESENT | cat::SWAPPED,
            report: cat::WRITTEN,
        };
        let mut found = Vec::new();
        for range in RANGES {
            self.pagemap.scan(range, filter, &mut found)?;
        }
        let mut runs = Vec::new();
        for region in found {
            pages::push(&mut runs, region.pages());
        }
        Ok(runs)
    }
}
