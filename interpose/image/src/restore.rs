//! Restores an image: the rollback of a survivor, or the start of a replacement.
//!
//! The caller must first call [`super::remap::restore_layout`]. This module uses no code or data
//! of the program side.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::absent_pages::{self, PageSums};
use super::fault_in::fault_in_area;
use super::fill::{PagePredicate, copy_in, verify_and_fill};
use super::image_delta::{Image, SlotRun};
use super::layout::{Area, Backing, Layout};
use super::observe::{ObserveError, inside_file};
use super::opened::{NeededAccess, OpenedAreas};
use super::pages::{self, PageRun};
use super::prefault::Prefault;
use super::prot::ProtError;
use super::store::PageStore;
use super::track::Tracker;
use std::io;

/// Removes a guard page (Linux 6.13).
const MADV_GUARD_REMOVE: i32 = 103;

/// Failed restore of pages; the program side is inconsistent afterwards and must not run.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The pages could not be scanned.
    #[error("cannot find the pages to restore")]
    Observe(#[source] ObserveError),
    /// An area could not be opened for writing, or its rights could not be restored.
    #[error("cannot access the pages of a protected area")]
    Access(#[source] ProtError),
    /// Pages without content in the image, or guard pages, could not be dropped.
    #[error("cannot drop the pages {pages:x?}")]
    Drop {
        /// Pages that could not be dropped.
        pages: PageRun,
        source: io::Error,
    },
    /// A shared file is shorter than its content in the image.
    #[error("the file {path:?} is too short for the image")]
    FileTooShort { path: String },
    /// Tracking could not be restarted.
    #[error("cannot start tracking again")]
    Arm(#[source] ObserveError),
    /// The image lacks a needed page. No page has been restored.
    #[error("page {page:#x} is not in the replica")]
    Absent {
        /// Number of the page.
        page: u64,
    },
    /// A copy in the image is damaged. No page has been restored.
    #[error("the replica of page {page:#x} has a wrong checksum")]
    Damaged {
        /// Number of the page.
        page: u64,
    },
}

/// Result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Pages copied from the image.
    pub copied: u64,
    /// Pages returned to the kernel, which contain zeros or file content afterwards.
    pub dropped: u64,
    /// Pages that the predicate has selected.
    pub selected: Vec<PageRun>,
}

/// Returns the pages that [`restore_pages`] would need but that the image does not store.
///
/// # Errors
/// See [`RestoreError`].
pub fn missing(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
) -> Result<Vec<PageSums>, RestoreError> {
    if image.absent().is_empty() {
        return Ok(Vec::new());
    }
    let seen = tracker
        .observe(layout, image, store)
        .map_err(RestoreError::Observe)?;
    let clean = pages::subtract(&seen.content, &seen.written);
    Ok(absent_pages::without(image.absent(), &clean))
}

/// Rolls a survivor back; touches only pages that changed since the image.
///
/// `layout` is the saved one, which [`super::remap::restore_layout`] has already restored. The
/// pages in `restored` (sorted) have the content of the image already.
///
/// # Errors
/// See [`RestoreError`].
pub fn restore_pages(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
    restored: &[PageRun],
) -> Result<RestoreStats, RestoreError> {
    let seen = tracker
        .observe(layout, image, store)
        .map_err(RestoreError::Observe)?;
    let clean = pages::union(&pages::subtract(&seen.content, &seen.written), restored);
    let wanted = pages::subtract(&image.pages(), &clean);
    let mut prefault = prefault(layout, &pages::subtract(&wanted, &seen.content));
    verify(image, &wanted, store)?;
    let fill = |list: &[SlotRun]| {
        prefault.wait();
        list.iter().for_each(|run| copy_in(run, store));
        Ok(Vec::new())
    };
    let pages = RestorePages {
        wanted: &wanted,
        content: &seen.content,
        guards: &seen.guards,
    };
    fill_and_arm(tracker, layout, image, pages, fill)
}

/// Starts to make memory present for an image that is still being received.
///
/// `pages` (sorted) are the pages of the image. The process has the saved `layout` already, but no
/// content of the image.
///
/// # Errors
/// See [`RestoreError`].
pub fn prepare(
    tracker: &mut Tracker,
    layout: &Layout,
    pages: &[PageRun],
) -> Result<Prefault, RestoreError> {
    let seen = tracker
        .present(layout, pages)
        .map_err(RestoreError::Observe)?;
    Ok(prefault(layout, &pages::subtract(pages, &seen.content)))
}

/// Loads a whole image into a process that has no content of this image.
///
/// `predicate` is applied to all pages. `prefault` is the result of [`prepare`]; `None` if
/// [`prepare`] was not called.
///
/// # Errors
/// See [`RestoreError`]. If a page is damaged, other pages have been restored already; another
/// whole image may be loaded over them.
pub fn load_all(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
    prefault: Option<Prefault>,
    predicate: PagePredicate<'_>,
) -> Result<RestoreStats, RestoreError> {
    let wanted = image.pages();
    check_stored(image, &wanted)?;
    if let Some(mut prefault) = prefault {
        prefault.wait();
    }
    let seen = tracker
        .present(layout, &wanted)
        .map_err(RestoreError::Observe)?;
    let fill = |list: &[SlotRun]| {
        verify_and_fill(list, store, predicate)
            .map_err(|page| RestoreError::Damaged { page: page.0 })
    };
    let pages = RestorePages {
        wanted: &wanted,
        content: &seen.content,
        guards: &seen.guards,
    };
    fill_and_arm(tracker, layout, image, pages, fill)
}

/// Pages of a restore, in sorted lists.
struct RestorePages<'a> {
    /// Pages that are copied from the image.
    wanted: &'a [PageRun],
    /// Pages that have content in the process.
    content: &'a [PageRun],
    /// Guard pages of the process.
    guards: &'a [PageRun],
}

/// Fills the wanted pages, drops content that is not in the image, and arms tracking.
fn fill_and_arm(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    RestorePages {
        wanted,
        content,
        guards,
    }: RestorePages<'_>,
    fill: impl FnOnce(&[SlotRun]) -> Result<Vec<PageRun>, RestoreError>,
) -> Result<RestoreStats, RestoreError> {
    check_files(layout, wanted)?;
    for &run in &pages::intersect(guards, wanted) {
        advise(run, MADV_GUARD_REMOVE)
            .map_err(|source| RestoreError::Drop { pages: run, source })?;
    }
    let excess = pages::subtract(content, &image.pages());
    let touched = pages::union(wanted, &excess);
    let opened =
        OpenedAreas::open(layout, &touched, NeededAccess::Write).map_err(RestoreError::Access)?;
    let dropped = drop_pages(layout, &excess)?;
    let filled = fill(&image.slots_of(wanted));
    opened.close().map_err(RestoreError::Access)?;
    let selected = filled?;
    tracker.watch(layout);
    tracker.arm(layout, &[]).map_err(RestoreError::Arm)?;
    Ok(RestoreStats {
        copied: pages::total(wanted),
        dropped,
        selected,
    })
}

/// Returns an error if a page to restore is not stored.
///
/// The function must be called before any page is changed.
fn check_stored(image: &Image, wanted: &[PageRun]) -> Result<(), RestoreError> {
    match absent_pages::among(image.absent(), wanted).first() {
        Some(run) => Err(RestoreError::Absent { page: run.first.0 }),
        None => Ok(()),
    }
}

/// Returns an error if a page to restore is missing in the store or damaged.
fn verify(image: &Image, wanted: &[PageRun], store: &PageStore) -> Result<(), RestoreError> {
    check_stored(image, wanted)?;
    match store.first_damaged(&image.slots_of(wanted)) {
        Some(page) => Err(RestoreError::Damaged { page: page.0 }),
        None => Ok(()),
    }
}

/// Returns an error if a mapped file is too short.
///
/// A write behind the end of the file would cause a SIGBUS.
fn check_files(layout: &Layout, wanted: &[PageRun]) -> Result<(), RestoreError> {
    for area in layout.tracked() {
        if let Backing::SharedFile { file, offset } = &area.backing {
            let wanted = pages::within(wanted, area.pages());
            let is_short = !pages::subtract(&wanted, &inside_file(area, file, *offset)).is_empty();
            if is_short
                || !fault_in_area(area, &wanted)
                    .map_err(RestoreError::Access)?
                    .is_empty()
            {
                let path = String::from_utf8_lossy(&file.path).into_owned();
                return Err(RestoreError::FileTooShort { path });
            }
        }
    }
    Ok(())
}

/// Resets pages to the content that they have outside of an image.
fn drop_pages(layout: &Layout, excess: &[PageRun]) -> Result<u64, RestoreError> {
    let mut dropped = 0;
    for area in layout.tracked() {
        for run in pages::within(excess, area.pages()) {
            match area.backing {
                // MADV_DONTNEED would only unmap a shared page and not clear it. The content of a
                // named file is not reset here; the undo log restores files.
                Backing::SharedMemory { .. } | Backing::Window { .. } => zero(run),
                Backing::SharedFile { .. } => continue,
                _ => {
                    let done = advise(run, libc::MADV_DONTNEED);
                    // The kernel drops memory locked by mlock(2) only with this advice (Linux
                    // 5.18).
                    done.or_else(|_| advise(run, libc::MADV_DONTNEED_LOCKED))
                        .map_err(|source| RestoreError::Drop { pages: run, source })?;
                }
            }
            dropped += run.pages;
        }
    }
    Ok(dropped)
}

/// Minimum number of pages (4 MiB) that are made present before the copy.
const MIN_PREFAULT_PAGES: u64 = 1 << 10;

/// Starts to make `absent` pages of private anonymous memory present before the copy.
///
/// A fault per page costs three times as much as the copy. Huge pages are not requested: they cost
/// less if the kernel has some, but it may take 0.2 s to create a single one, and a virtual machine
/// must request them from its host. Measured with 640 MiB and two threads: 51 ms to 1.9 s with huge
/// pages, 90 ms with base pages.
fn prefault(layout: &Layout, absent: &[PageRun]) -> Prefault {
    let is_plain = |area: &&Area| matches!(area.backing, Backing::Anonymous | Backing::Heap);
    let areas = layout
        .tracked()
        .filter(|area| is_plain(area) && pages::total(absent) >= MIN_PREFAULT_PAGES);
    let ranges = areas.flat_map(|area| pages::within(absent, area.pages()));
    Prefault::start(ranges.map(PageRun::range).collect())
}

fn zero(run: PageRun) {
    let to = run.start.addr() as *mut u8;
    // SAFETY: the caller has opened these present pages of a shared mapping of the program side for
    // writing, and the program side is stopped.
    unsafe { to.write_bytes(0, run.pages as usize * PAGE_SIZE) };
}

fn advise(run: PageRun, advice: i32) -> io::Result<()> {
    let range = run.range();
    let start = range.start as *mut libc::c_void;
    // SAFETY: the pages belong to the program side, which is stopped, and the callers discard their
    // content.
    let rc = unsafe { libc::madvise(start, range.len() as usize, advice) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
