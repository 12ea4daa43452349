//! Putting an image back: the rollback of a survivor, or the birth of a replacement.
//!
//! [`super::remap::restore_layout`] comes first. Nothing here uses code or data of the user side.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::absent::{self, Sums};
use super::epoch::{Image, SlotRun};
use super::fill::{Seek, copy_in, fill};
use super::layout::{Area, Backing, Layout};
use super::observe::{ObserveError, fault_in_area, inside_file};
use super::opened::{Need, Opened};
use super::prefault::Prefault;
use super::prot::ProtError;
use super::runs::{self, PageRun};
use super::store::PageStore;
use super::track::Tracker;
use std::io;

/// Remove a guard page (Linux 6.13).
const MADV_GUARD_REMOVE: i32 = 103;

/// Putting pages back failed; the user side is neither old nor new then and must not run.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The pages could not be looked at.
    #[error("cannot find the pages to restore")]
    Observe(#[source] ObserveError),
    /// An area could not be opened for writing, or closed again.
    #[error("cannot get at the pages of a protected area")]
    Access(#[source] ProtError),
    /// Pages without content in the image could not be dropped.
    #[error("cannot drop the pages {pages:x?}")]
    Drop {
        /// The pages.
        pages: PageRun,
        source: io::Error,
    },
    /// A shared file is shorter than what the image holds of it.
    #[error("the file {path:?} is too short for the image")]
    FileTooShort { path: String },
    /// Tracking could not be started again.
    #[error("cannot start tracking again")]
    Arm(#[source] ObserveError),
    /// The image does not keep what is needed. Nothing has been put back.
    #[error("page {page:#x} is not in the copy")]
    Absent {
        /// The page.
        page: u64,
    },
    /// The image is damaged. Nothing has been put back.
    #[error("the copy of page {page:#x} has a wrong checksum")]
    Damaged {
        /// The page.
        page: u64,
    },
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Pages copied from the image.
    pub copied: u64,
    /// Pages given back to the kernel, thus zero or file content again.
    pub dropped: u64,
    /// Pages in which something may be that was looked for.
    pub found: Vec<PageRun>,
}

/// Pages that [`restore_pages`] would put back but that the image does not keep.
///
/// # Errors
/// See [`RestoreError`].
pub fn missing(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
) -> Result<Vec<Sums>, RestoreError> {
    if image.absent().is_empty() {
        return Ok(Vec::new());
    }
    let seen = tracker
        .observe(layout, image, store)
        .map_err(RestoreError::Observe)?;
    let clean = runs::subtract(&seen.content, &seen.written);
    Ok(absent::without(image.absent(), &clean))
}

/// Rolls a survivor back: only pages that changed since the image are touched.
///
/// `layout` is the saved one, which the process has again after
/// [`super::remap::restore_layout`]; pages of `right` (sorted) are known to be what they were.
///
/// # Errors
/// See [`RestoreError`].
pub fn restore_pages(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
    right: &[PageRun],
) -> Result<RestoreStats, RestoreError> {
    let seen = tracker
        .observe(layout, image, store)
        .map_err(RestoreError::Observe)?;
    let clean = runs::union(&runs::subtract(&seen.content, &seen.written), right);
    let wanted = runs::subtract(&image.pages(), &clean);
    let mut prefault = prefault(layout, &runs::subtract(&wanted, &seen.content));
    verify(image, &wanted, store)?;
    let fill = |list: &[SlotRun]| {
        prefault.wait();
        list.iter().for_each(|run| copy_in(run, store));
        Ok(Vec::new())
    };
    let pages = [&wanted[..], &seen.content, &seen.guards];
    put_back(tracker, layout, image, pages, fill)
}

/// Begins to make memory present for an image of these pages (sorted) that is still on its way, in
/// a process that has nothing of it yet. `layout` is the saved one, which the process has already.
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
    Ok(prefault(layout, &runs::subtract(pages, &seen.content)))
}

/// Loads a whole image into a process that has nothing of it yet, and looks for something in all of
/// its pages. `ready` is what was [`prepare`]d, if anything.
///
/// # Errors
/// See [`RestoreError`]. If a page is damaged, others have been put back; a whole image may be
/// loaded over them.
pub fn load_all(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
    ready: Option<Prefault>,
    seek: Seek<'_>,
) -> Result<RestoreStats, RestoreError> {
    let wanted = image.pages();
    has_all(image, &wanted)?;
    if let Some(mut ready) = ready {
        ready.wait();
    }
    let seen = tracker
        .present(layout, &wanted)
        .map_err(RestoreError::Observe)?;
    let fill = |list: &[SlotRun]| {
        fill(list, store, seek).map_err(|page| RestoreError::Damaged { page: page.0 })
    };
    let pages = [&wanted[..], &seen.content, &seen.guards];
    put_back(tracker, layout, image, pages, fill)
}

/// Has the pages `wanted` filled, drops `content` the image does not know, and arms tracking.
fn put_back(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    [wanted, content, guards]: [&[PageRun]; 3],
    fill: impl FnOnce(&[SlotRun]) -> Result<Vec<PageRun>, RestoreError>,
) -> Result<RestoreStats, RestoreError> {
    check_files(layout, wanted)?;
    for &run in &runs::intersect(guards, wanted) {
        advise(run, MADV_GUARD_REMOVE)
            .map_err(|source| RestoreError::Drop { pages: run, source })?;
    }
    let excess = runs::subtract(content, &image.pages());
    let touched = runs::union(wanted, &excess);
    let opened = Opened::open(layout, &touched, Need::Write).map_err(RestoreError::Access)?;
    let dropped = drop_pages(layout, &excess)?;
    let filled = fill(&image.slots_of(wanted));
    opened.close().map_err(RestoreError::Access)?;
    let found = filled?;
    tracker.watch(layout);
    tracker.arm(layout, &[]).map_err(RestoreError::Arm)?;
    Ok(RestoreStats {
        copied: runs::total(wanted),
        dropped,
        found,
    })
}

/// Nothing is touched if a page that is to be put back is not there.
fn has_all(image: &Image, wanted: &[PageRun]) -> Result<(), RestoreError> {
    match absent::among(image.absent(), wanted).first() {
        Some(run) => Err(RestoreError::Absent { page: run.first.0 }),
        None => Ok(()),
    }
}

/// Nor if it is damaged.
fn verify(image: &Image, wanted: &[PageRun], store: &PageStore) -> Result<(), RestoreError> {
    has_all(image, wanted)?;
    match store.damaged(&image.slots_of(wanted)) {
        Some(page) => Err(RestoreError::Damaged { page: page.0 }),
        None => Ok(()),
    }
}

/// Writing behind the end of a mapped file is a `SIGBUS`: better to say so.
fn check_files(layout: &Layout, wanted: &[PageRun]) -> Result<(), RestoreError> {
    for area in layout.tracked() {
        if let Backing::SharedFile { file, offset } = &area.backing {
            let wanted = runs::within(wanted, area.pages());
            let is_short = !runs::subtract(&wanted, &inside_file(area, file, *offset)).is_empty();
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

/// Makes pages what they are without content of their own.
fn drop_pages(layout: &Layout, excess: &[PageRun]) -> Result<u64, RestoreError> {
    let mut dropped = 0;
    for area in layout.tracked() {
        for run in runs::within(excess, area.pages()) {
            match area.backing {
                // Dropping a shared page only unmaps it, and a file has no "before".
                Backing::SharedMemory { .. } | Backing::Window { .. } => zero(run),
                Backing::SharedFile { .. } => continue,
                _ => {
                    let done = advise(run, libc::MADV_DONTNEED);
                    // Locked memory wants to be asked differently (Linux 5.18).
                    done.or_else(|_| advise(run, libc::MADV_DONTNEED_LOCKED))
                        .map_err(|source| RestoreError::Drop { pages: run, source })?;
                }
            }
            dropped += run.pages;
        }
    }
    Ok(dropped)
}

/// Fewer pages than this are made present by the copy itself (4 MiB).
const FEW: u64 = 1 << 10;

/// Begins to make `absent` pages of plain memory present, ahead of the copy into them.
///
/// One fault for each page costs three times as much as the copy. These are base pages, which
/// another process has just left. Huge ones cost less if they are at hand, but to make a single one
/// the kernel may take 0.2 s, and a virtual machine must get them from its host (640 MiB, two
/// threads: 51 ms to 1.9 s; base pages 90 ms).
fn prefault(layout: &Layout, absent: &[PageRun]) -> Prefault {
    let is_plain = |area: &&Area| matches!(area.backing, Backing::Anonymous | Backing::Heap);
    let areas = layout
        .tracked()
        .filter(|area| is_plain(area) && runs::total(absent) >= FEW);
    let ranges = areas.flat_map(|area| runs::within(absent, area.pages()));
    Prefault::start(ranges.map(PageRun::range).collect())
}

fn zero(run: PageRun) {
    let to = run.start.addr() as *mut u8;
    // SAFETY: present pages of a writable shared mapping of the user side, which stands still.
    unsafe { to.write_bytes(0, run.pages as usize * PAGE_SIZE) };
}

fn advise(run: PageRun, advice: i32) -> io::Result<()> {
    let range = run.range();
    let start = range.start as *mut libc::c_void;
    // SAFETY: the pages belong to the user side, and what they hold is to go.
    let rc = unsafe { libc::madvise(start, range.len() as usize, advice) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
