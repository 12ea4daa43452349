//! A fast scan of pages that an earlier scan has found and write-protected.
//!
//! A scan for all properties of all pages takes the kernel three times as long as a scan for pages
//! that are not write-protected. The faster scan suffices for *stable* pages: pages of private
//! anonymous memory that had content when they were last write-protected. A stable page that is
//! still protected has not changed. Every kind of change removes the protection: a write, but also
//! dropping, unmapping or mapping again, since a missing page counts as unprotected in a watched
//! area (a self-test verifies that). Only the unprotected pages among the stable ones are then
//! scanned for all properties, and protected again.

use super::kernel::{Pagemap, Region, ScanFilter, category as cat};
use super::pages::{self, AddrRange, PageRun};
use std::io;

/// Minimum length of a run of stable pages for a separate walk.
///
/// The value is smaller in tests, because tests use small areas.
const MIN_STABLE_RUN: u64 = if cfg!(test) { 3 } else { 256 };
/// Maximum number of protected pages between two runs that are walked together.
///
/// Walking over more pages would cost more than a second walk.
const MAX_CLUSTER_GAP: u64 = if cfg!(test) { 2 } else { 128 };

/// Sub-range of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AreaPart {
    /// All pages are stable.
    Stable(PageRun),
    /// Pages that need a scan for all properties.
    Unknown(PageRun),
}

/// Divides an area into stable and other parts, in order; `stable` is sorted.
pub(super) fn parts(area: PageRun, stable: &[PageRun]) -> Vec<AreaPart> {
    let mut list = Vec::new();
    let mut next = area.start.0;
    let is_long = |run: &PageRun| run.pages >= MIN_STABLE_RUN;
    for run in pages::within(stable, area).into_iter().filter(is_long) {
        if run.start.0 > next {
            list.push(AreaPart::Unknown(PageRun::between(next, run.start.0)));
        }
        list.push(AreaPart::Stable(run));
        next = run.end();
    }
    if next < area.end() {
        list.push(AreaPart::Unknown(PageRun::between(next, area.end())));
    }
    list
}

/// Returns the unprotected pages of a range, including those that do not exist.
///
/// The kernel has a fast path for exactly this query.
pub(super) fn unprotected(pagemap: &mut Pagemap, range: AddrRange) -> io::Result<Vec<PageRun>> {
    let mut found = Vec::new();
    let want = ScanFilter {
        all: cat::WRITTEN,
        any: 0,
        report: cat::WRITTEN,
    };
    pagemap.scan(range, want, &mut found)?;
    let mut list = Vec::with_capacity(found.len());
    found
        .iter()
        .for_each(|region| pages::push(&mut list, region.pages()));
    Ok(list)
}

/// Finds the unprotected pages of a stable range and protects those that exist.
///
/// Returns all unprotected pages. Appends the existing ones to `regions`, with the categories of
/// `report`.
pub(super) fn scan_and_protect(
    pagemap: &mut Pagemap,
    range: AddrRange,
    report: u64,
    regions: &mut Vec<Region>,
) -> io::Result<Vec<PageRun>> {
    let unprotected = unprotected(pagemap, range)?;
    let existing = ScanFilter {
        all: cat::WRITTEN,
        any: cat::PRESENT | cat::SWAPPED,
        report,
    };
    for cluster in clusters(&unprotected) {
        pagemap.scan_and_protect(cluster.range(), existing, regions)?;
    }
    Ok(unprotected)
}

/// Joins runs that are close to each other.
fn clusters(list: &[PageRun]) -> Vec<PageRun> {
    let mut out: Vec<PageRun> = Vec::new();
    for &run in list {
        match out.last_mut() {
            Some(last) if run.start.0 - last.end() <= MAX_CLUSTER_GAP => {
                last.pages = run.end() - last.start.0
            }
            _ => out.push(run),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_divided_at_long_stable_runs() {
        let run = PageRun::between;
        let stable = [run(0, 1000), run(2000, 2002), run(3000, 4000)];
        let want = [
            AreaPart::Stable(run(500, 1000)),
            AreaPart::Unknown(run(1000, 3000)),
            AreaPart::Stable(run(3000, 4000)),
            AreaPart::Unknown(run(4000, 4001)),
        ];
        assert_eq!(parts(run(500, 4001), &stable), want);
        assert_eq!(
            parts(run(1000, 2500), &stable),
            [AreaPart::Unknown(run(1000, 2500))]
        );
        assert_eq!(
            parts(run(3000, 4000), &stable),
            [AreaPart::Stable(run(3000, 4000))]
        );
    }

    #[test]
    fn close_runs_are_walked_together() {
        let run = PageRun::between;
        let list = [run(0, 1), run(3, 4), run(7, 8)];
        assert_eq!(clusters(&list), [run(0, 4), run(7, 8)]);
        assert!(clusters(&[]).is_empty());
    }
}
