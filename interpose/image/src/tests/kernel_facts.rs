//! The kernel's behaviour in the cases on which the code depends.

use super::support::*;
use crate::kernel::{Pagemap, Region, ScanFilter, Uffd, category as cat};
use crate::pages::AddrRange;

struct Probe {
    user: TestProgram,
    uffd: Uffd,
    pagemap: Pagemap,
}

const EVERYTHING: u64 =
    cat::WPALLOWED | cat::WRITTEN | cat::FILE | cat::PRESENT | cat::SWAPPED | cat::PFNZERO;

impl Probe {
    /// Returns a probe; `None`, and a skipped test, if the kernel cannot track writes.
    fn new() -> Option<Self> {
        let (uffd, pagemap) = kernel_tracking()?;
        let user = TestProgram::new();
        Some(Self {
            user,
            uffd,
            pagemap,
        })
    }

    fn range(&self, page: u64, pages: u64) -> AddrRange {
        AddrRange::new(self.user.addr(page), self.user.addr(page + pages))
    }

    fn arm(&mut self, page: u64, pages: u64) {
        let range = self.range(page, pages);
        self.uffd.register(range).unwrap();
        self.pagemap.protect(range).unwrap();
    }

    fn scan(&mut self, page: u64, pages: u64, report: u64) -> Vec<Region> {
        let want = ScanFilter {
            all: 0,
            any: cat::PRESENT | cat::SWAPPED,
            report,
        };
        let mut out = Vec::new();
        let range = self.range(page, pages);
        self.pagemap.scan(range, want, &mut out).unwrap();
        out
    }

    /// Returns the categories of one page; 0 if there is no page.
    fn state(&mut self, page: u64) -> u64 {
        let found = self.scan(page, 1, EVERYTHING);
        found.first().map_or(0, |region| region.categories)
    }
}

#[test]
fn written_pages_are_seen_and_protecting_leaves_no_markers() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 8, RW);
    p.user.write(0, 1);
    assert_eq!(p.state(0), cat::PRESENT | cat::WRITTEN);
    p.arm(0, 8);
    assert_eq!(p.state(0), cat::PRESENT | cat::WPALLOWED);
    assert_eq!(p.state(1), 0, "a page that never existed got a marker");
    p.user.write(0, 2);
    p.user.write(1, 2);
    assert_eq!(p.state(0), cat::PRESENT | cat::WPALLOWED | cat::WRITTEN);
    assert_eq!(p.state(1), cat::PRESENT | cat::WPALLOWED | cat::WRITTEN);
}

#[test]
fn one_walk_reports_and_protects() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 8, RW);
    p.user.map(8, 8, RW);
    p.user.fill(0, 4, 1);
    p.user.write(8, 1);
    p.uffd.register(p.range(0, 8)).unwrap();
    let want = ScanFilter {
        all: 0,
        any: cat::PRESENT | cat::SWAPPED,
        report: cat::WRITTEN,
    };
    let both = |p: &mut Probe| {
        let (mut out, range) = (Vec::new(), p.range(0, 8));
        p.pagemap.scan_and_protect(range, want, &mut out).unwrap();
        let page = |at: u64| (at - p.user.addr(0)) / 4096;
        let brief = |r: &Region| (page(r.start), page(r.end), r.categories == cat::WRITTEN);
        out.iter().map(brief).collect::<Vec<_>>()
    };
    assert_eq!(both(&mut p), [(0, 4, true)]);
    p.user.write(2, 2);
    assert_eq!(both(&mut p), [(0, 2, false), (2, 3, true), (3, 4, false)]);
    assert_eq!(both(&mut p), [(0, 4, false)]);
    assert_eq!(p.state(5), 0, "a page that never existed got a marker");
    let (mut out, range) = (Vec::new(), p.range(8, 8));
    p.pagemap.scan_and_protect(range, want, &mut out).unwrap();
    assert!(out.is_empty(), "unregistered pages are skipped");
    assert_ne!(p.state(8) & cat::WRITTEN, 0);
}

#[test]
fn reading_an_absent_page_gives_the_zero_page() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 1, RW);
    p.arm(0, 1);
    assert_eq!(p.user.read(0), 0);
    assert_ne!(p.state(0) & cat::PFNZERO, 0);
}

#[test]
fn a_write_by_the_kernel_counts() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 2, RW);
    p.user.fill(0, 2, 1);
    p.arm(0, 2);
    let file = TempFile::new("source", 1, 9);
    // SAFETY: a mapped, writable page of the test's window, to which no other reference exists.
    #[allow(unsafe_code)]
    let into = unsafe { std::slice::from_raw_parts_mut(p.user.addr(1) as *mut u8, 4096) };
    std::io::Read::read_exact(&mut file.open(), into).unwrap();
    assert_eq!(p.state(0) & cat::WRITTEN, 0);
    assert_ne!(p.state(1) & cat::WRITTEN, 0);
    assert_eq!(p.user.read(1), 9);
}

#[test]
fn a_dropped_anonymous_page_is_empty_and_a_new_mapping_is_not_watched() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 2, RW);
    p.user.fill(0, 2, 1);
    p.arm(0, 2);
    assert!(p.user.advise(0, 1, libc::MADV_DONTNEED));
    assert_eq!(p.state(0), 0);
    p.user.map(1, 1, RW);
    p.user.write(1, 1);
    assert_eq!(
        p.state(1),
        cat::PRESENT | cat::WRITTEN,
        "must not be WPALLOWED"
    );
}

#[test]
fn a_dropped_page_of_a_private_file_leaves_a_marker() {
    let Some(mut p) = Probe::new() else { return };
    let file = TempFile::new("private", 2, 5);
    p.user
        .map_with(0, 2, RW, libc::MAP_PRIVATE, Some(&file.open()));
    assert_eq!(p.user.read(0), 5);
    assert_ne!(p.state(0) & cat::FILE, 0, "page cache page");
    p.user.write(1, 6);
    assert_eq!(p.state(1) & cat::FILE, 0, "copied page");
    p.arm(0, 2);
    p.user.write(0, 6);
    assert_eq!(p.state(0) & (cat::FILE | cat::WRITTEN), cat::WRITTEN);
    assert!(p.user.advise(1, 1, libc::MADV_DONTNEED));
    assert_eq!(
        p.state(1),
        cat::SWAPPED | cat::WPALLOWED,
        "looks like a clean swapped page"
    );
    assert!(p.user.advise(1, 1, libc::MADV_POPULATE_READ));
    assert_ne!(
        p.state(1) & cat::FILE,
        0,
        "is the file's page after it was read in"
    );
}

#[test]
fn a_huge_page_is_watched_by_base_pages() {
    let Some(mut p) = Probe::new() else { return };
    let first = 512 - p.user.page(0) % 512;
    p.user.map(first, 1024, RW);
    p.user.advise(first, 1024, libc::MADV_HUGEPAGE);
    p.user.fill(first, 1024, 1);
    p.arm(first, 1024);
    p.user.write(first + 700, 3);
    let found = p.scan(first, 1024, cat::WRITTEN);
    let written: Vec<_> = found.iter().filter(|r| r.categories != 0).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].start, p.user.addr(first + 700));
    assert_eq!(written[0].end, p.user.addr(first + 701));
}

#[test]
fn guard_pages_are_distinguished() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 2, RW);
    p.user.fill(0, 2, 1);
    if !p.user.advise(0, 1, 102) {
        return skip("the kernel has no guard pages (MADV_GUARD_INSTALL)");
    }
    let found = p.scan(0, 2, EVERYTHING | cat::GUARD);
    assert_ne!(found[0].categories & cat::GUARD, 0, "{found:x?}");
    assert_eq!(found[1].categories & cat::GUARD, 0);
}

#[test]
fn registering_twice_is_fine_and_a_second_userfaultfd_is_refused() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 4, RW);
    p.user.fill(0, 4, 1);
    p.arm(0, 4);
    p.uffd.register(p.range(0, 4)).unwrap();
    assert_eq!(
        p.state(0) & cat::WRITTEN,
        0,
        "registering again keeps the protection"
    );
    let other = Uffd::open().unwrap();
    let error = other.register(p.range(0, 4)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
}

#[test]
fn protection_survives_a_change_of_access_rights_and_not_a_move() {
    let Some(mut p) = Probe::new() else { return };
    p.user.map(0, 4, RW);
    p.user.fill(0, 4, 1);
    p.arm(0, 4);
    p.user.protect(0, 4, NONE);
    p.user.protect(0, 4, RW);
    assert_eq!(p.state(1) & (cat::PRESENT | cat::WRITTEN), cat::PRESENT);
    let to = p.user.addr(16) as *mut libc::c_void;
    // SAFETY: mremap(2) moves a page inside of the test's window, to which no reference exists.
    #[allow(unsafe_code)]
    let at = unsafe {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(p.user.addr(1) as *mut _, 4096, 4096, flags, to)
    };
    assert_eq!(at, to);
    assert_eq!(p.state(16), cat::PRESENT | cat::WRITTEN);
}

#[test]
fn many_regions_are_returned_once_each() {
    let Some(mut p) = Probe::new() else { return };
    let pages = 20_000;
    p.user.map(0, pages, RW);
    for page in (0..pages).step_by(2) {
        p.user.write(page, 1);
    }
    p.arm(0, pages);
    let found = p.scan(0, pages, EVERYTHING);
    assert_eq!(found.len() as u64, pages / 2);
    assert!(found.windows(2).all(|w| w[0].end < w[1].start));
}
