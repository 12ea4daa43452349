//! Capture of a checkpoint, during which the program is paused.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::{Delta, Image, SlotRun, lay_out, merge};
use super::layout::Layout;
use super::observe::ObserveError;
use super::opened::{NeededAccess, OpenedAreas};
use super::pages::{self, AddrRange, PageRun};
use super::prot::ProtError;
use super::store::{PageStore, StoreError};
use super::track::Tracker;
use understudy_numbers::Epoch;

/// Reason for a failed capture.
///
/// The changes are not lost: another capture would include them.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The pages could not be scanned.
    #[error("cannot find the changed pages")]
    Observe(#[source] ObserveError),
    /// No room for the copies.
    #[error("cannot allocate room for {pages} changed pages")]
    Allocate {
        /// Changed pages.
        pages: u64,
        source: StoreError,
    },
    /// An area could not be opened for reading, or its rights could not be restored.
    #[error("cannot access the pages of a protected area")]
    Access(#[source] ProtError),
    /// Tracking could not be restarted.
    #[error("cannot start tracking again")]
    Arm(#[source] ObserveError),
}

/// Pages that a capture omits because their content is not needed (sorted lists).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedPages {
    /// Pages with content.
    pub content: Vec<PageRun>,
    /// Pages of `content` that were written since the last capture.
    ///
    /// Pages without copies count as written if the tracker finds changes by comparison.
    pub written: Vec<PageRun>,
}

/// Pages (sorted lists) that a capture treats specially.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureOptions<'a> {
    /// Pages whose content is not needed.
    pub omitted: &'a [PageRun],
    /// Pages whose copies get separate extents, because these copies are freed early.
    pub short_lived: &'a [PageRun],
}

/// Result of a capture.
#[derive(Debug)]
pub struct Captured {
    pub delta: Delta,
    /// Pages of [`CaptureOptions::omitted`] that have content, and those that were written.
    pub omitted: OmittedPages,
}

/// Captures the changes since `image` as the delta that leads to `epoch`.
///
/// `extra` are ranges outside of the tracked areas that are always copied, such as the live part of
/// the stack.
///
/// The caller commits the delta by [`Image::apply`] or discards it by [`Tracker::abandon`] before
/// the next capture.
///
/// # Errors
/// See [`CaptureError`]. After an error, another capture would include the changes.
pub fn capture(
    tracker: &mut Tracker,
    layout: &Layout,
    extra: &[AddrRange],
    options: CaptureOptions<'_>,
    epoch: Epoch,
    store: &mut PageStore,
    image: &Image,
) -> Result<Captured, CaptureError> {
    tracker.watch(layout);
    let mut seen = tracker
        .observe_and_arm(layout, image, store)
        .map_err(CaptureError::Observe)?;
    let known = image.pages();
    let mut omitted = OmittedPages::default();
    if !options.omitted.is_empty() {
        omitted.content = pages::intersect(&seen.content, options.omitted);
        omitted.written = pages::intersect(&seen.written, options.omitted);
        seen.content = pages::subtract(&seen.content, options.omitted);
        seen.written = pages::subtract(&seen.written, options.omitted);
    }
    let extra = pages::normalise(extra.iter().map(|range| range.pages()).collect());
    let new = pages::subtract(&seen.content, &known);
    let changed = pages::union(&pages::union(&seen.written, &new), &extra);
    let dropped = pages::subtract(&pages::subtract(&known, &seen.content), &extra);
    let runs = allocate_extents(&changed, options.short_lived, store).map_err(|source| {
        tracker.mark_changed(&pages::union(&changed, &dropped));
        let pages = pages::total(&changed);
        CaptureError::Allocate { pages, source }
    })?;
    let delta = Delta {
        base: image.epoch(),
        epoch,
        runs,
        dropped,
    };
    match copy_and_arm(tracker, layout, &seen.armed, &changed, &delta, store) {
        Ok(()) => Ok(Captured { delta, omitted }),
        Err(error) => {
            // Some or all areas are armed already, so the next scan would not report these changes.
            tracker.abandon(delta, store);
            Err(error)
        }
    }
}

/// Allocates slots for pages, in separate extents for those in `short_lived`.
///
/// A common extent would have holes as soon as the short-lived copies are freed.
fn allocate_extents(
    pages: &[PageRun],
    short_lived: &[PageRun],
    store: &mut PageStore,
) -> Result<Vec<SlotRun>, StoreError> {
    let long_lived = pages::subtract(pages, short_lived);
    let short_lived = pages::intersect(pages, short_lived);
    let long_extents = store.alloc(pages::total(&long_lived))?;
    match store.alloc(pages::total(&short_lived)) {
        Ok(short_extents) => Ok(merge(
            &lay_out(&long_lived, &long_extents),
            &lay_out(&short_lived, &short_extents),
        )),
        Err(error) => {
            store.release(long_extents);
            Err(error)
        }
    }
}

/// Copies the pages of a delta to their slots, and arms the remaining areas.
///
/// The scan has armed the areas in `already_armed`.
fn copy_and_arm(
    tracker: &mut Tracker,
    layout: &Layout,
    already_armed: &[AddrRange],
    changed: &[PageRun],
    delta: &Delta,
    store: &PageStore,
) -> Result<(), CaptureError> {
    let opened =
        OpenedAreas::open(layout, changed, NeededAccess::Read).map_err(CaptureError::Access)?;
    copy_out(&delta.runs, store);
    opened.close().map_err(CaptureError::Access)?;
    tracker
        .arm(layout, already_armed)
        .map_err(CaptureError::Arm)
}

/// Copies pages to their slots.
fn copy_out(list: &[SlotRun], store: &PageStore) {
    for run in list {
        let from = run.pages.start.addr() as *const u8;
        let bytes = run.pages.pages as usize * PAGE_SIZE;
        // SAFETY: the pages are mapped, opened for reading, and their writers are stopped. The
        // slots are allocated and lie in the store's arena, which is not part of the program side.
        unsafe { store.ptr(run.slot).copy_from_nonoverlapping(from, bytes) };
    }
}
