//! Detection of the pages that have changed since the last capture.
//!
//! [`ScanTracker`] divides time into periods. A period begins when the tracker *arms* tracking: the
//! kernel write-protects all pages. When the program writes to a page, the kernel resolves the
//! fault by removing the protection, without a signal. At the end of the period a scan returns the
//! pages that are not protected. Where the kernel cannot report writes, pages are compared with
//! their copies.

use super::image_delta::{Delta, Image};
use super::kernel::Uffd;
use super::layout::{Backing, Layout};
use super::observe::{ArmTime, Observation, ObserveError, PageScanner};
use super::page_comparison::compare;
use super::pages::{self, AddrRange, PageRun};
use super::scratch::Scratch;
use super::stable_pages;
use super::store::PageStore;
use std::io;
use understudy_formats::pages::Tracking;

/// Error in setting tracking up.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// The page map cannot be opened.
    #[error("cannot open /proc/self/pagemap")]
    OpenPagemap(#[source] io::Error),
    /// The kernel has no `PAGEMAP_SCAN` (added in Linux 6.7).
    #[error("the kernel has no PAGEMAP_SCAN")]
    NoScan,
    /// The kernel offers no userfaultfd with asynchronous write protection.
    #[error("cannot open a userfaultfd with asynchronous write protection")]
    OpenUffd(#[source] io::Error),
    /// The scratch pages of the self-test could not be mapped or watched.
    #[error("cannot test write tracking on a scratch page")]
    SelfTest(#[source] io::Error),
    /// The kernel accepts every call but does not report writes correctly.
    #[error("write tracking is accepted by the kernel but does not report writes correctly")]
    Unreliable,
}

/// Selected tracker, and the reason if it is a fallback.
#[derive(Debug)]
pub struct SelectedTracker {
    pub tracker: Tracker,
    /// Reason why comparison was selected without being requested.
    pub fallback: Option<TrackError>,
}

/// Method of detecting changed pages.
#[derive(Debug)]
pub enum Tracker {
    /// Uses the kernel's write tracking, and comparison for shared mappings.
    PagemapScan(ScanTracker),
    /// Compares every page with content to its copy.
    Compare(CompareTracker),
}

/// Tracker by the kernel's write protection.
#[derive(Debug)]
pub struct ScanTracker {
    uffd: Uffd,
    presence: PageScanner,
    /// Areas that the kernel refuses to watch; all their pages count as written.
    unwatched: Vec<PageRun>,
    /// Pages that were written in an earlier period whose delta was abandoned.
    ///
    /// Such pages count as written in this period, although they are protected.
    carried: Vec<PageRun>,
    /// Pages that are compared, because other processes or devices may write them.
    ///
    /// The kernel does not report such writes.
    exposed: Vec<PageRun>,
}

/// Tracker by comparison alone.
#[derive(Debug)]
pub struct CompareTracker {
    presence: PageScanner,
    /// Pages (sorted) that count as changed in the next capture.
    forced: Vec<PageRun>,
}

impl Tracker {
    /// Sets tracking up.
    ///
    /// # Errors
    /// Fails if the requested tracker is not available; for [`Tracking::Auto`] and
    /// [`Tracking::Landings`] only if the page map cannot be opened.
    pub fn select(choice: Tracking) -> Result<SelectedTracker, TrackError> {
        Self::select_with_failure(choice, None)
    }

    /// Sets tracking up like [`Tracker::select`]; `failure` simulates a failure of the kernel.
    ///
    /// # Errors
    /// Errors of [`Tracker::select`].
    pub fn select_with_failure(
        choice: Tracking,
        failure: Option<TrackError>,
    ) -> Result<SelectedTracker, TrackError> {
        let open = || ScanTracker::open().map(Self::PagemapScan);
        let selected = match choice {
            Tracking::Auto | Tracking::PagemapScan | Tracking::Landings => {
                failure.map_or_else(open, Err)
            }
            Tracking::Compare => CompareTracker::open().map(Self::Compare),
        };
        match selected {
            Ok(tracker) => Ok(SelectedTracker {
                tracker,
                fallback: None,
            }),
            Err(error) if matches!(choice, Tracking::Auto | Tracking::Landings) => {
                Ok(SelectedTracker {
                    tracker: Self::Compare(CompareTracker::open()?),
                    fallback: Some(error),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Discards a captured delta that will not be committed.
    ///
    /// The pages of the delta count as changed in the next capture and in a rollback, as if the
    /// delta had not been captured.
    pub fn abandon(&mut self, delta: Delta, store: &mut PageStore) {
        self.mark_changed(&delta.changed_or_dropped());
        delta.free(store);
    }

    /// Makes pages (sorted) count as changed.
    ///
    /// Comparison finds changed pages without this call.
    pub(super) fn mark_changed(&mut self, pages: &[PageRun]) {
        if let Self::PagemapScan(scan) = self {
            scan.carried = pages::union(&scan.carried, pages);
            scan.presence.forget_stable();
        }
    }

    /// Includes pages (sorted) in the next capture even if they have not changed.
    pub fn force_capture(&mut self, pages: &[PageRun]) {
        match self {
            Self::PagemapScan(_) => self.mark_changed(pages),
            Self::Compare(compare) => compare.forced = pages.to_vec(),
        }
    }

    /// Compares these pages (sorted) with their copies until [`Tracker::expose_only`].
    ///
    /// The method is for pages that other processes, mappings or devices may write: the kernel does
    /// not report such writes.
    pub fn expose(&mut self, pages: &[PageRun]) {
        if let Self::PagemapScan(scan) = self {
            scan.exposed = pages::union(&scan.exposed, pages);
        }
    }

    /// Limits the comparison of [`Tracker::expose`] to these pages (sorted).
    pub fn expose_only(&mut self, pages: Vec<PageRun>) {
        if let Self::PagemapScan(scan) = self {
            scan.exposed = pages;
        }
    }

    /// Registers every area that the kernel can watch, so that its pages can be write-protected.
    pub(super) fn watch(&mut self, layout: &Layout) {
        if let Self::PagemapScan(scan) = self {
            scan.watch(layout);
        }
    }

    /// Finds the pages with content, and the changes since the image.
    pub(super) fn observe(
        &mut self,
        layout: &Layout,
        image: &Image,
        store: &PageStore,
    ) -> Result<Observation, ObserveError> {
        match self {
            Self::PagemapScan(scan) => scan.observe(layout, image, store, false),
            Self::Compare(compare) => compare.observe(layout, image, store),
        }
    }

    /// Counts the pages that a capture would copy now, except for stacks.
    ///
    /// # Errors
    /// Fails if the pages cannot be scanned or compared.
    pub fn count_changed(
        &mut self,
        layout: &Layout,
        image: &Image,
        store: &PageStore,
    ) -> Result<u64, ObserveError> {
        let seen = self.observe(layout, image, store)?;
        let new = pages::subtract(&seen.content, &image.pages());
        Ok(pages::total(&pages::union(&seen.written, &new)))
    }

    /// Observes like [`Tracker::observe`], and arms tracking where one walk does both.
    ///
    /// [`Observation::armed`] lists the armed areas. The caller must arm the other areas by
    /// [`Tracker::arm`], or pass all observed changes to [`Tracker::mark_changed`]: a later scan
    /// does not report the changes in the armed areas again. After an error all pages count as
    /// changed.
    pub(super) fn observe_and_arm(
        &mut self,
        layout: &Layout,
        image: &Image,
        store: &PageStore,
    ) -> Result<Observation, ObserveError> {
        match self {
            Self::PagemapScan(scan) => {
                let seen = scan.observe(layout, image, store, true);
                if seen.is_err() {
                    scan.carried = layout.watched().map(super::layout::Area::pages).collect();
                }
                seen
            }
            Self::Compare(compare) => compare.observe(layout, image, store),
        }
    }

    /// Returns the kernel's view of the existing pages, without comparison of content.
    ///
    /// `known` are the pages of the image, sorted.
    pub(super) fn present(
        &mut self,
        layout: &Layout,
        known: &[PageRun],
    ) -> Result<Observation, ObserveError> {
        let presence = match self {
            Self::PagemapScan(scan) => &mut scan.presence,
            Self::Compare(compare) => &mut compare.presence,
        };
        presence.observe(layout, known, ArmTime::Later)
    }

    /// Arms tracking: pages that are written from now on count as changed.
    ///
    /// `armed` are areas (in order) that are armed already.
    pub(super) fn arm(&mut self, layout: &Layout, armed: &[AddrRange]) -> Result<(), ObserveError> {
        match self {
            Self::PagemapScan(scan) => scan.arm(layout, armed),
            Self::Compare(compare) => {
                compare.forced.clear();
                Ok(())
            }
        }
    }
}

impl ScanTracker {
    fn open() -> Result<Self, TrackError> {
        let presence = PageScanner::open().map_err(TrackError::OpenPagemap)?;
        if !presence.has_scan() {
            return Err(TrackError::NoScan);
        }
        let mut tracker = Self {
            uffd: Uffd::open().map_err(TrackError::OpenUffd)?,
            presence,
            unwatched: Vec::new(),
            carried: Vec::new(),
            exposed: Vec::new(),
        };
        tracker.self_test()?;
        if tracker
            .detects_dropped_pages()
            .map_err(TrackError::SelfTest)?
        {
            tracker.presence.enable_stable_pages();
        }
        Ok(tracker)
    }

    /// Verifies that a write, and nothing else, is reported.
    ///
    /// Sandboxes may accept the calls without implementing them.
    fn self_test(&mut self) -> Result<(), TrackError> {
        let scratch = Scratch::map(2).map_err(TrackError::SelfTest)?;
        let range = scratch.range();
        scratch.write(0);
        scratch.write(1);
        self.uffd.register(range).map_err(TrackError::SelfTest)?;
        let pagemap = self.presence.pagemap();
        pagemap.protect(range).map_err(TrackError::SelfTest)?;
        scratch.write(1);
        let layout = Layout::single(super::layout::Area {
            range,
            prot: super::vmas::Prot::default(),
            backing: Backing::Anonymous,
            may_write: true,
        });
        // First only page 1 was written since it was protected. The scan protects it again, so that
        // after a write to page 0 only that page must be reported.
        for page in [1, 0] {
            let first = range.pages().start.0 + page;
            let arming = ArmTime::Now { unwatched: &[] };
            match self.presence.observe(&layout, &[], arming) {
                Ok(seen) if seen.written == [PageRun::between(first, first + 1)] => {}
                _ => return Err(TrackError::Unreliable),
            }
            scratch.write(0);
        }
        Ok(())
    }

    /// Returns true if the kernel reports protected pages that were dropped as unprotected.
    ///
    /// The tested range is as long as three page tables. The first and the last table contain one
    /// protected page each, whose entry must not stay protected. The middle table does not exist.
    fn detects_dropped_pages(&mut self) -> io::Result<bool> {
        const PAGES_PER_TABLE: u64 = 512;
        let scratch = Scratch::map(3 * PAGES_PER_TABLE)?;
        let range = scratch.range();
        scratch.write(0);
        scratch.write(3 * PAGES_PER_TABLE as usize - 1);
        self.uffd.register(range)?;
        self.presence.pagemap().protect(range)?;
        scratch.drop_all()?;
        Ok(stable_pages::unprotected(self.presence.pagemap(), range)? == [range.pages()])
    }

    fn watch(&mut self, layout: &Layout) {
        self.unwatched.clear();
        for area in layout.watched() {
            // Fails for example if the program has registered the area with its own userfaultfd.
            if self.uffd.register(area.range).is_err() {
                pages::push(&mut self.unwatched, area.pages());
            }
        }
    }

    fn observe(
        &mut self,
        layout: &Layout,
        image: &Image,
        store: &PageStore,
        arm: bool,
    ) -> Result<Observation, ObserveError> {
        let unwatched = &self.unwatched;
        let arming = if arm {
            ArmTime::Now { unwatched }
        } else {
            ArmTime::Later
        };
        let mut seen = self.presence.observe(layout, &image.pages(), arming)?;
        if !(self.carried.is_empty() && self.unwatched.is_empty()) {
            let assumed = pages::union(&self.carried, &self.unwatched);
            let assumed = pages::intersect(&seen.content, &assumed);
            seen.written = pages::union(&seen.written, &assumed);
        }
        if !self.exposed.is_empty() {
            let exposed = pages::intersect(&seen.content, &self.exposed);
            let exposed = pages::subtract(&exposed, &seen.written);
            seen.uncertain = pages::union(&seen.uncertain, &exposed);
        }
        if !seen.uncertain.is_empty() {
            compare(&mut seen, layout, image, store)?;
        }
        Ok(seen)
    }

    fn arm(&mut self, layout: &Layout, armed: &[AddrRange]) -> Result<(), ObserveError> {
        for area in layout.watched() {
            let range = area.range;
            if armed.binary_search(&range).is_ok() {
                continue;
            }
            let result = self.presence.pagemap().protect(range);
            result.map_err(|source| ObserveError::Scan { range, source })?;
        }
        self.carried.clear();
        Ok(())
    }
}

impl CompareTracker {
    fn open() -> Result<Self, TrackError> {
        let presence = PageScanner::open().map_err(TrackError::OpenPagemap)?;
        Ok(Self {
            presence,
            forced: Vec::new(),
        })
    }

    fn observe(
        &mut self,
        layout: &Layout,
        image: &Image,
        store: &PageStore,
    ) -> Result<Observation, ObserveError> {
        let known = image.pages();
        let mut seen = self.presence.observe(layout, &known, ArmTime::Later)?;
        seen.written.clear();
        seen.uncertain.clone_from(&seen.content);
        compare(&mut seen, layout, image, store)?;
        seen.written = pages::union(
            &seen.written,
            &pages::intersect(&seen.content, &self.forced),
        );
        Ok(seen)
    }
}
