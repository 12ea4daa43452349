//! Sorted runs of pages, and set operations on them.
//!
//! A rank has millions of pages but few runs. So all operations on memory images work with runs,
//! never with single pages. Operations on sorted lists take time linear in the number of runs, or
//! less.

use bincode::{Decode, Encode};

/// Method of finding pages that have changed since the last capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// Kernel support if available, otherwise comparison.
    #[default]
    Auto,
    /// Write protection by userfaultfd, dirty pages by `PAGEMAP_SCAN`.
    PagemapScan,
    /// [`Tracking::Auto`], and comparison of memory that MPI calls receive to.
    Landings,
    /// Comparison of every page with its copy.
    Compare,
}

/// Size of an x86-64 base page; a huge page counts as several base pages.
pub const PAGE_SIZE: usize = 4096;

/// `log2(PAGE_SIZE)`.
pub const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();

/// Page of the program side, numbered `address / PAGE_SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct PageIndex(pub u64);

impl PageIndex {
    /// Returns the page that contains `addr`.
    pub const fn containing(addr: u64) -> Self {
        Self(addr >> PAGE_SHIFT)
    }

    /// Returns the address of the page's first byte.
    pub const fn addr(self) -> u64 {
        self.0 << PAGE_SHIFT
    }
}

/// Half-open range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct AddrRange {
    /// First address.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
}

impl AddrRange {
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// True if the range contains no address.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True if the range contains `addr`.
    pub const fn contains(self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Returns the common part, if it is not empty.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let common = Self::new(self.start.max(other.start), self.end.min(other.end));
        (!common.is_empty()).then_some(common)
    }

    /// Returns the pages that the range covers, in whole or in part.
    pub const fn pages(self) -> PageRun {
        let first = self.start >> PAGE_SHIFT;
        let last = self.end.div_ceil(1 << PAGE_SHIFT);
        PageRun {
            start: PageIndex(first),
            pages: last.saturating_sub(first),
        }
    }
}

/// Run of consecutive pages; never empty inside of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct PageRun {
    /// First page.
    pub start: PageIndex,
    /// Number of pages.
    pub pages: u64,
}

impl PageRun {
    /// Returns the pages with the numbers `start..end`.
    pub const fn between(start: u64, end: u64) -> Self {
        Self {
            start: PageIndex(start),
            pages: end - start,
        }
    }

    /// Returns the number of the first page after the run.
    pub const fn end(self) -> u64 {
        self.start.0 + self.pages
    }

    /// Returns the addresses of the run.
    pub const fn range(self) -> AddrRange {
        AddrRange::new(self.start.addr(), self.end() << PAGE_SHIFT)
    }
}

/// Appends `run` to a sorted list, joined with the last run if possible.
///
/// `run` must not start before the last run of `list`.
pub fn push(list: &mut Vec<PageRun>, run: PageRun) {
    if run.pages == 0 {
        return;
    }
    match list.last_mut() {
        Some(last) if last.end() >= run.start.0 => {
            last.pages = last.end().max(run.end()) - last.start.0;
        }
        _ => list.push(run),
    }
}

/// Sorts and joins runs in arbitrary order.
pub fn normalise(mut list: Vec<PageRun>) -> Vec<PageRun> {
    list.sort_unstable();
    let mut out = Vec::with_capacity(list.len());
    for run in list {
        push(&mut out, run);
    }
    out
}

/// True if the runs are a valid list for the set operations of this module.
///
/// Runs of a valid list are sorted, disjoint, not empty, and within the address space.
pub fn is_list(runs: &[PageRun]) -> bool {
    let mut end = 0;
    runs.iter().all(|run| {
        let is_next = run.pages > 0 && run.start.0 >= end;
        let last = run.start.0.checked_add(run.pages);
        end = last.unwrap_or(u64::MAX);
        is_next && end <= u64::MAX >> PAGE_SHIFT
    })
}

/// Returns the number of pages in a list.
pub fn total(list: &[PageRun]) -> u64 {
    list.iter().map(|run| run.pages).sum()
}

/// Returns the pages in `a` or `b`.
pub fn union(a: &[PageRun], b: &[PageRun]) -> Vec<PageRun> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let from_a = j == b.len() || (i < a.len() && a[i].start <= b[j].start);
        if from_a {
            push(&mut out, a[i]);
            i += 1;
        } else {
            push(&mut out, b[j]);
            j += 1;
        }
    }
    out
}

/// Returns the pages in both `a` and `b`.
pub fn intersect(a: &[PageRun], b: &[PageRun]) -> Vec<PageRun> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let start = a[i].start.0.max(b[j].start.0);
        let end = a[i].end().min(b[j].end());
        if start < end {
            push(&mut out, PageRun::between(start, end));
        }
        if a[i].end() <= b[j].end() {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

/// Returns the pages in `a` that are not in `b`.
pub fn subtract(a: &[PageRun], b: &[PageRun]) -> Vec<PageRun> {
    let mut out = Vec::with_capacity(a.len());
    let mut j = 0;
    for run in a {
        // First page of the run that was not compared with `b` yet.
        let mut next = run.start.0;
        while j < b.len() && b[j].end() <= next {
            j += 1;
        }
        let mut k = j;
        while k < b.len() && b[k].start.0 < run.end() {
            if b[k].start.0 > next {
                push(&mut out, PageRun::between(next, b[k].start.0));
            }
            next = next.max(b[k].end());
            k += 1;
        }
        if next < run.end() {
            push(&mut out, PageRun::between(next, run.end()));
        }
        // The last examined run of `b` may extend into the next run of `a`.
        j = k.saturating_sub(1).max(j);
    }
    out
}

/// Returns the part of a sorted list inside of one range of pages.
pub fn within(list: &[PageRun], bounds: PageRun) -> Vec<PageRun> {
    let first = list.partition_point(|run| run.end() <= bounds.start.0);
    let after = list.partition_point(|run| run.start.0 < bounds.end());
    if first >= after {
        return Vec::new();
    }
    intersect(&list[first..after], &[bounds])
}
