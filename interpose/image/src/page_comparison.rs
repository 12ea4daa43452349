//! Comparison of pages with their copies, where the kernel does not report changes.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::absent_pages;
use super::image_delta::Image;
use super::layout::{Backing, Layout};
use super::observe::{Observation, ObserveError};
use super::opened::{NeededAccess, OpenedAreas};
use super::pages::{self, PageRun};
use super::store::PageStore;
use super::sums::page_sum;

/// Compares the uncertain pages and adds the changed ones to the written ones.
///
/// New pages of zeros are removed from the pages with content.
pub(super) fn compare(
    seen: &mut Observation,
    layout: &Layout,
    image: &Image,
    store: &PageStore,
) -> Result<(), ObserveError> {
    let opened = OpenedAreas::open(layout, &seen.uncertain, NeededAccess::Read)?;
    let mut differing = Vec::new();
    for run in image.slots_of(&seen.uncertain) {
        let copy = store.ptr(run.slot);
        for (i, page) in (run.pages.start.0..run.pages.end()).enumerate() {
            if page_bytes(page) != bytes_at(copy.wrapping_add(i * PAGE_SIZE)) {
                pages::push(&mut differing, PageRun::between(page, page + 1));
            }
        }
    }
    // Pages without a copy are compared by their checksums.
    let mut wrong_sum = Vec::new();
    for run in absent_pages::among(image.absent(), &seen.uncertain) {
        for (page, _) in run
            .each()
            .filter(|&(page, sum)| page_sum(page, page_bytes(page.0)) != sum)
        {
            pages::push(&mut wrong_sum, PageRun::between(page.0, page.0 + 1));
        }
    }
    let written = pages::union(&differing, &wrong_sum);
    let new = pages::subtract(&seen.uncertain, &image.pages());
    // A new page of zeros equals a page that does not exist.
    let zero = zero_pages(layout, &new);
    opened.close()?;
    let written = pages::union(&written, &pages::subtract(&new, &zero));
    seen.written = pages::union(&seen.written, &written);
    seen.content = pages::subtract(&seen.content, &zero);
    Ok(())
}

/// Returns the pages of zeros in areas where an absent page means zeros.
fn zero_pages(layout: &Layout, pages: &[PageRun]) -> Vec<PageRun> {
    let mut zero = Vec::new();
    for area in layout.tracked() {
        if matches!(
            area.backing,
            Backing::PrivateFile { .. } | Backing::RemovedFile { .. } | Backing::SharedFile { .. }
        ) {
            continue;
        }
        for run in pages::within(pages, area.pages()) {
            for page in run.start.0..run.end() {
                if page_bytes(page) == &[0; PAGE_SIZE] {
                    pages::push(&mut zero, PageRun::between(page, page + 1));
                }
            }
        }
    }
    zero
}

fn page_bytes(page: u64) -> &'static [u8; PAGE_SIZE] {
    bytes_at(pages::PageIndex(page).addr() as *const u8)
}

fn bytes_at(page: *const u8) -> &'static [u8; PAGE_SIZE] {
    // SAFETY: the callers pass whole pages that are mapped, readable and not written during the
    // comparison: pages with content in opened areas of the program side, and allocated slots. No
    // reference outlives the comparison for which it is created.
    unsafe { &*page.cast() }
}
