//! Detection of the program-side pages that have content of their own.
//!
//! Interpretation of the kernel's page states (`tests/kernel_facts.rs` and `tests/cycles.rs` verify
//! most lines with the kernel):
//!
//! | page state                              | meaning                                            |
//! |-----------------------------------------|----------------------------------------------------|
//! | none, private mapping                   | zeros or file content: not in image                |
//! | zero page                               | zeros: not in image                                |
//! | page cache page, private mapping        | file content: not in image                         |
//! | present or swapped, private mapping     | content                                            |
//! | swapped, private mapping of a file      | swapped, or marker of a dropped page: fault in     |
//! | none, shared mapping                    | the file may have content: fault in                |
//! | any, shared mapping                     | may have changed by other means: compare           |
//! | readable, mapping of a removed file     | content: fault in                                  |
//! | guard page                              | unreadable, no content                             |

#![allow(unsafe_code)]

use super::fault_in::{fault_in_area, read_in};
use super::kernel::{Pagemap, Region, ScanFilter, category as cat};
use super::layout::{Area, Backing, Layout, MappedFile};
use super::pagemap_entries::read_entries;
use super::pages::{self, AddrRange, PageRun};
use super::prot::ProtError;
use super::stable_pages::{self, AreaPart};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Failed scan of the program side's pages.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The page map could not be scanned.
    #[error("cannot scan the pages of {range:x?}")]
    Scan { range: AddrRange, source: io::Error },
    /// The existing pages of shared memory could not be determined.
    #[error("cannot determine which pages of the shared memory at {range:x?} exist")]
    Residency { range: AddrRange, source: io::Error },
    /// An area could not be opened for reading.
    #[error("cannot open an area for reading")]
    Open(#[from] ProtError),
}

/// State of the tracked areas.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// Pages with content of their own.
    pub(super) content: Vec<PageRun>,
    /// Pages of `content` that were written since tracking was armed, according to the kernel.
    pub(super) written: Vec<PageRun>,
    /// Pages of `content` for which only a comparison can detect changes.
    pub(super) uncertain: Vec<PageRun>,
    /// Guard pages.
    pub(super) guards: Vec<PageRun>,
    /// Areas that need no arming, in order.
    ///
    /// The pages of these areas were write-protected during the scan, or none of the pages is
    /// unprotected.
    pub(super) armed: Vec<AddrRange>,
}

/// Time at which tracking is armed in an area.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArmTime<'a> {
    /// After the scan.
    Later,
    /// During the scan of an area, if one walk can scan and arm.
    ///
    /// An area that contains one of the pages in `unwatched`, which the kernel does not watch, is
    /// not armed.
    Now {
        /// Sorted.
        unwatched: &'a [PageRun],
    },
}

/// Scanner for page states.
#[derive(Debug)]
pub(super) struct PageScanner {
    pagemap: Pagemap,
    /// Categories to report; `None` if the kernel has no `PAGEMAP_SCAN`.
    ///
    /// Without `PAGEMAP_SCAN`, page map entries are read one by one.
    report: Option<u64>,
    regions: Vec<Region>,
    /// Pages of private anonymous memory that had content and were write-protected at the last
    /// scan.
    stable: Vec<PageRun>,
    /// True if the kernel reports all changes of stable pages.
    uses_stable_pages: bool,
}

const REPORTED_CATEGORIES: u64 =
    cat::WPALLOWED | cat::WRITTEN | cat::FILE | cat::PRESENT | cat::SWAPPED | cat::PFNZERO;

impl PageScanner {
    /// Opens the page map and determines the kernel's scan method.
    pub(super) fn open() -> io::Result<Self> {
        let mut pagemap = Pagemap::open()?;
        let probe = AddrRange::new(0x10000, 0x11000);
        let mut is_supported = |report| {
            let want = ScanFilter {
                all: 0,
                any: cat::PRESENT,
                report,
            };
            pagemap.scan(probe, want, &mut Vec::new()).is_ok()
        };
        let with_guards = REPORTED_CATEGORIES | cat::GUARD;
        let report = if is_supported(with_guards) {
            Some(with_guards)
        } else {
            is_supported(REPORTED_CATEGORIES).then_some(REPORTED_CATEGORIES)
        };
        Ok(Self {
            pagemap,
            report,
            regions: Vec::new(),
            stable: Vec::new(),
            uses_stable_pages: false,
        })
    }

    /// Enables the use of stable pages, after a self-test of the kernel.
    pub(super) fn enable_stable_pages(&mut self) {
        self.uses_stable_pages = true;
    }

    /// Discards the stable pages of the last scan.
    pub(super) fn forget_stable(&mut self) {
        self.stable.clear();
    }

    /// True if the kernel has `PAGEMAP_SCAN`.
    pub(super) fn has_scan(&self) -> bool {
        self.report.is_some()
    }

    pub(super) fn pagemap(&mut self) -> &mut Pagemap {
        &mut self.pagemap
    }

    /// Scans every tracked area; `known` are the pages of the image, sorted.
    pub(super) fn observe(
        &mut self,
        layout: &Layout,
        known: &[PageRun],
        arming: ArmTime<'_>,
    ) -> Result<Observation, ObserveError> {
        let mut seen = Observation::default();
        let stable = std::mem::take(&mut self.stable);
        let mut new_stable = Vec::new();
        for area in layout.tracked() {
            match &area.backing {
                Backing::SharedMemory { .. }
                | Backing::SharedFile { .. }
                | Backing::Window { .. } => {
                    self.observe_shared(area, known, &mut seen)?;
                }
                Backing::PrivateFile { .. } => self.observe_private_file(area, &mut seen)?,
                Backing::RemovedFile { .. } => self.observe_removed_file(area, &mut seen)?,
                Backing::Anonymous | Backing::Heap => {
                    // FILE is not requested: anonymous pages do not have it, and the kernel would
                    // have to inspect each page.
                    let protect = match arming {
                        ArmTime::Later => false,
                        ArmTime::Now { unwatched } => {
                            pages::within(unwatched, area.pages()).is_empty()
                        }
                    };
                    if !protect {
                        self.scan_regions(area.range, !cat::FILE, false)?;
                        self.add_private(&mut seen, &[]);
                        continue;
                    }
                    self.observe_and_protect(area, &stable, &mut seen)?;
                    for run in pages::within(&seen.content, area.pages()) {
                        pages::push(&mut new_stable, run);
                    }
                    seen.armed.push(area.range);
                }
                Backing::Stack => {}
            }
        }
        if self.uses_stable_pages {
            self.stable = new_stable;
        }
        Ok(seen)
    }

    /// Scans private anonymous memory and arms tracking in this memory.
    fn observe_and_protect(
        &mut self,
        area: &Area,
        known: &[PageRun],
        seen: &mut Observation,
    ) -> Result<(), ObserveError> {
        for part in stable_pages::parts(area.pages(), known) {
            let (AreaPart::Stable(pages) | AreaPart::Unknown(pages)) = part;
            match (part, self.report) {
                (AreaPart::Stable(_), Some(report)) => self.observe_stable(pages, report, seen)?,
                _ => {
                    self.scan_regions(pages.range(), !cat::FILE, true)?;
                    self.add_private(seen, &[]);
                }
            }
        }
        Ok(())
    }

    /// Scans stable pages: only the unprotected ones among them are inspected.
    fn observe_stable(
        &mut self,
        pages: PageRun,
        report: u64,
        seen: &mut Observation,
    ) -> Result<(), ObserveError> {
        self.regions.clear();
        let range = pages.range();
        let unprotected = stable_pages::scan_and_protect(
            &mut self.pagemap,
            range,
            report & !cat::FILE,
            &mut self.regions,
        )
        .map_err(|source| ObserveError::Scan { range, source })?;
        let mut now = Observation::default();
        self.add_private(&mut now, &[]);
        let unchanged = pages::subtract(&[pages], &unprotected);
        for run in pages::union(&unchanged, &now.content) {
            pages::push(&mut seen.content, run);
        }
        for (list, new) in [
            (&mut seen.written, now.written),
            (&mut seen.guards, now.guards),
        ] {
            new.into_iter().for_each(|run| pages::push(list, run));
        }
        Ok(())
    }

    fn observe_private_file(
        &mut self,
        area: &Area,
        seen: &mut Observation,
    ) -> Result<(), ObserveError> {
        self.regions_of(area.range, !0)?;
        let is_swapped = |region: &&Region| {
            region.categories & (cat::SWAPPED | cat::PRESENT | cat::GUARD) == cat::SWAPPED
        };
        let swapped: Vec<PageRun> = self
            .regions
            .iter()
            .filter(is_swapped)
            .map(Region::pages)
            .collect();
        let mut unreadable = Vec::new();
        if !swapped.is_empty() {
            unreadable = fault_in_area(area, &swapped)?;
            self.regions_of(area.range, !0)?;
        }
        self.add_private(seen, &unreadable);
        // Code and constants usually have no unprotected page, so a walk to arm them is
        // unnecessary.
        if !self
            .regions
            .iter()
            .any(|region| region.categories & cat::WRITTEN != 0)
        {
            seen.armed.push(area.range);
        }
        Ok(())
    }

    /// Counts all readable pages as content, since another process could not open the file.
    fn observe_removed_file(
        &mut self,
        area: &Area,
        seen: &mut Observation,
    ) -> Result<(), ObserveError> {
        let mut unreadable = fault_in_area(area, &[area.pages()])?;
        self.regions_of(area.range, !0)?;
        let present = self.regions.iter().map(Region::pages).collect();
        let missing = pages::subtract(
            &[area.pages()],
            &pages::union(&pages::normalise(present), &unreadable),
        );
        if !missing.is_empty() {
            // Kernels before 5.14 do not have the advice that faults pages in.
            unreadable = pages::union(&unreadable, &read_in(&missing));
            self.regions_of(area.range, !0)?;
        }
        for region in &mut self.regions {
            region.categories &= !(cat::FILE | cat::PFNZERO);
        }
        self.add_private(seen, &unreadable);
        Ok(())
    }

    /// Adds the regions of a private area to the observation.
    fn add_private(&self, seen: &mut Observation, unreadable: &[PageRun]) {
        for region in &self.regions {
            let has = |bits| region.categories & bits != 0;
            if has(cat::GUARD) {
                pages::push(&mut seen.guards, region.pages());
                continue;
            }
            if has(cat::PFNZERO) || has(cat::FILE) {
                continue;
            }
            for run in pages::subtract(&[region.pages()], unreadable) {
                pages::push(&mut seen.content, run);
                if has(cat::WRITTEN) {
                    pages::push(&mut seen.written, run);
                }
            }
        }
    }

    fn observe_shared(
        &mut self,
        area: &Area,
        known: &[PageRun],
        seen: &mut Observation,
    ) -> Result<(), ObserveError> {
        self.regions_of(area.range, !0)?;
        let mut mapped = Vec::new();
        for region in &self.regions {
            let is_guard = region.categories & cat::GUARD != 0;
            let list = if is_guard {
                &mut seen.guards
            } else {
                &mut mapped
            };
            pages::push(list, region.pages());
        }
        let existing = pages::union(&existing_pages(area)?, &pages::within(known, area.pages()));
        let unmapped = pages::subtract(&pages::subtract(&existing, &mapped), &seen.guards);
        let readable = pages::subtract(&unmapped, &fault_in_area(area, &unmapped)?);
        for run in pages::union(&mapped, &readable) {
            pages::push(&mut seen.content, run);
            pages::push(&mut seen.uncertain, run);
        }
        Ok(())
    }

    /// Fills `self.regions` with the present or swapped pages of `range`.
    ///
    /// `interest` is a mask of the categories to report.
    fn regions_of(&mut self, range: AddrRange, interest: u64) -> Result<(), ObserveError> {
        self.scan_regions(range, interest, false)
    }

    /// Acts like [`PageScanner::regions_of`], and with `protect` also arms tracking of the pages.
    fn scan_regions(
        &mut self,
        range: AddrRange,
        interest: u64,
        protect: bool,
    ) -> Result<(), ObserveError> {
        self.regions.clear();
        let result = match self.report {
            Some(report) => {
                let want = ScanFilter {
                    all: 0,
                    any: cat::PRESENT | cat::SWAPPED,
                    report: report & interest,
                };
                if protect {
                    self.pagemap
                        .scan_and_protect(range, want, &mut self.regions)
                } else {
                    self.pagemap.scan(range, want, &mut self.regions)
                }
            }
            None => read_entries(self.pagemap.file(), range, &mut self.regions),
        };
        result.map_err(|source| ObserveError::Scan { range, source })
    }
}

/// Returns the pages of a shared area that exist in its file, mapped or not.
fn existing_pages(area: &Area) -> Result<Vec<PageRun>, ObserveError> {
    match &area.backing {
        Backing::SharedFile { file, offset } => Ok(inside_file(area, file, *offset)),
        // Pages of a file on disk may exist without being in memory. Pages that the program itself
        // has written are in memory.
        Backing::SharedMemory { stored: true, .. } if !area.may_write => Ok(vec![area.pages()]),
        _ => resident_pages(area.range),
    }
}

/// Returns the pages of an area that lie inside its file.
///
/// Returns all pages of the area if the length is unknown, because the file's name now belongs to
/// another file.
pub(super) fn inside_file(area: &Area, file: &MappedFile, offset: u64) -> Vec<PageRun> {
    let found = std::fs::metadata(OsStr::from_bytes(&file.path));
    let Some(found) = found.ok().filter(|found| found.ino() == file.inode) else {
        return vec![area.pages()];
    };
    let end = area.range.start + found.len().saturating_sub(offset);
    let inside = area.range.intersect(AddrRange::new(area.range.start, end));
    inside.into_iter().map(AddrRange::pages).collect()
}

/// Returns the existing pages of hidden shared memory (`mincore(2)`).
fn resident_pages(range: AddrRange) -> Result<Vec<PageRun>, ObserveError> {
    let pages = range.pages();
    let mut flags = vec![0_u8; pages.pages as usize];
    let start = range.start as *mut libc::c_void;
    // SAFETY: the vector has one byte for each page of the range.
    let rc = unsafe { libc::mincore(start, range.len() as usize, flags.as_mut_ptr()) };
    if rc != 0 {
        let source = io::Error::last_os_error();
        return Err(ObserveError::Residency { range, source });
    }
    let mut out = Vec::new();
    for (flag, page) in flags.iter().zip(pages.start.0..) {
        if flag & 1 == 1 {
            pages::push(&mut out, PageRun::between(page, page + 1));
        }
    }
    Ok(out)
}

/// Converts a path for the kernel; paths from the kernel contain no zero byte.
pub(super) fn c_path(path: &[u8]) -> CString {
    let until = path.iter().position(|&b| b == 0).unwrap_or(path.len());
    CString::new(&path[..until]).unwrap_or_default()
}
