//! Putting an image back: the rollback of a survivor, or the birth of a replacement.
//!
//! [`super::remap::restore_layout`] comes first. Nothing here uses code or data of the user side.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::{Image, SlotRun};
use super::layout::{Area, Backing, Layout};
use super::observe::{ObserveError, inside_file};
use super::prot::{Need, Opened, ProtError};
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
        /// The kernel's answer.
        source: io::Error,
    },
    /// A shared file is shorter than what the image holds of it.
    #[error("the file {path:?} is too short for the image")]
    FileTooShort {
        /// The file.
        path: String,
    },
    /// Tracking could not be started again.
    #[error("cannot start tracking again")]
    Arm(#[source] ObserveError),
}

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Pages copied from the image.
    pub copied: u64,
    /// Pages given back to the kernel, thus zero or file content again.
    pub dropped: u64,
}

/// Rolls a survivor back: only pages that changed since the image are touched.
///
/// `layout` is the saved one, which the process has again after
/// [`super::remap::restore_layout`].
///
/// # Errors
/// See [`RestoreError`].
pub fn restore_pages(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
) -> Result<RestoreStats, RestoreError> {
    let seen = tracker.observe(layout, image, store).map_err(RestoreError::Observe)?;
    let clean = runs::subtract(&seen.content, &seen.written);
    let wanted = runs::subtract(&image.pages(), &clean);
    put_back(tracker, layout, image, store, [&wanted, &seen.content, &seen.guards])
}

/// Loads a whole image into a process that has nothing of it yet.
///
/// # Errors
/// See [`RestoreError`].
pub fn load_all(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
) -> Result<RestoreStats, RestoreError> {
    let seen = tracker.present(layout, image).map_err(RestoreError::Observe)?;
    let wanted = image.pages();
    put_back(tracker, layout, image, store, [&wanted, &seen.content, &seen.guards])
}

/// Copies the pages `wanted`, drops `content` the image does not know, and arms tracking.
fn put_back(
    tracker: &mut Tracker,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
    [wanted, content, guards]: [&[PageRun]; 3],
) -> Result<RestoreStats, RestoreError> {
    check_files(layout, wanted)?;
    for &run in &runs::intersect(guards, wanted) {
        advise(run, MADV_GUARD_REMOVE).map_err(|source| RestoreError::Drop { pages: run, source })?;
    }
    let excess = runs::subtract(content, &image.pages());
    let touched = runs::union(wanted, &excess);
    let opened = Opened::open(layout, &touched, Need::Write).map_err(RestoreError::Access)?;
    let dropped = drop_pages(layout, &excess)?;
    let huge = Huge::advise(layout, &runs::subtract(wanted, content));
    copy_in(&image.slots_of(wanted), store);
    huge.close();
    opened.close().map_err(RestoreError::Access)?;
    tracker.watch(layout);
    tracker.arm(layout, &[]).map_err(RestoreError::Arm)?;
    Ok(RestoreStats {
        copied: runs::total(wanted),
        dropped,
    })
}

/// Writing behind the end of a mapped file is a `SIGBUS`: better to say so.
fn check_files(layout: &Layout, wanted: &[PageRun]) -> Result<(), RestoreError> {
    for area in layout.tracked() {
        if let Backing::SharedFile { path, offset } = &area.backing {
            let wanted = runs::within(wanted, area.pages());
            if !runs::subtract(&wanted, &inside_file(area, path, *offset)).is_empty() {
                let path = String::from_utf8_lossy(path).into_owned();
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
                Backing::SharedMemory { .. } => zero(run),
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

/// Areas that are given huge pages where whole ones are loaded: one fault for each base page costs three times as much
/// as the copy (first touch of 64 MiB and copy: 31 ms; with huge pages 9 ms).
#[derive(Default)]
struct Huge<'a>(Vec<&'a Area>);

/// Base pages in a huge page.
const HUGE: u64 = 512;

/// Pages up to which huge pages are asked for (128 MiB). More of them than are at hand cost a virtual machine far more
/// than base pages do: 640 MiB took 1.1 s, base pages one by one 0.34 s, populated at once 0.27 s.
const HUGE_LIMIT: u64 = 1 << 15;

impl<'a> Huge<'a> {
    /// Advises it for `absent` pages of plain memory.
    fn advise(layout: &'a Layout, absent: &[PageRun]) -> Self {
        let mut huge = Self::default();
        if runs::total(absent) > HUGE_LIMIT {
            populate(layout, absent);
            return huge;
        }
        // Without "madvise" the kernel decides alone, and taking the advice back would change what it does.
        let mode = std::fs::read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if !mode.windows(9).any(|word| word == b"[madvise]") {
            return huge;
        }
        for area in layout
            .tracked()
            .filter(|area| matches!(area.backing, Backing::Anonymous | Backing::Heap))
        {
            let inside = |run: PageRun| (run.start.0.next_multiple_of(HUGE), run.end() / HUGE * HUGE);
            let whole = runs::within(absent, area.pages())
                .into_iter()
                .map(inside)
                .filter(|(start, end)| start < end);
            let advised = whole.map(|(start, end)| advise(PageRun::between(start, end), libc::MADV_HUGEPAGE));
            if advised.filter(Result::is_ok).count() > 0 {
                huge.0.push(area);
            }
        }
        huge
    }

    /// Base pages again for what the program touches itself. The advice is on whole areas then, so that no mapping stays
    /// in pieces, which mremap(2) would refuse to move.
    fn close(self) {
        for area in self.0 {
            let _ = advise(area.pages(), libc::MADV_NOHUGEPAGE);
        }
    }
}

/// Makes absent pages of plain memory present, many at once. It is no error if that fails: the copy does it as well.
fn populate(layout: &Layout, absent: &[PageRun]) {
    for area in layout
        .tracked()
        .filter(|area| matches!(area.backing, Backing::Anonymous | Backing::Heap))
    {
        for run in runs::within(absent, area.pages()) {
            let _ = advise(run, libc::MADV_POPULATE_WRITE);
        }
    }
}

fn copy_in(list: &[SlotRun], store: &PageStore) {
    for run in list {
        let to = run.pages.start.addr() as *mut u8;
        let bytes = run.pages.pages as usize * PAGE_SIZE;
        // SAFETY: the pages belong to the user side, stand still and are opened for writing, or
        // belong to its stack; the slots lie in the arena outside of it.
        unsafe { to.copy_from_nonoverlapping(store.ptr(run.slot), bytes) };
    }
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
