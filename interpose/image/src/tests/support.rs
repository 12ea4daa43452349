//! An address range that represents the program side, and a reference copy.

#![allow(unsafe_code)]

use crate::PAGE_SIZE;
use crate::capture::{CaptureOptions, capture};
use crate::image_delta::{Delta, Image};
use crate::kernel::{Pagemap, Uffd};
use crate::layout::{Backing, Layout};
use crate::pages::{AddrRange, PageIndex, PageRun};
use crate::remap::{LayoutOrigin, restore_layout};
use crate::restore::{RestoreStats, restore_pages};
use crate::store::{ArenaFiles, Extent, PageStore, StoreConfig};
use crate::track::Tracker;
use crate::vmas::{ExcludedRanges, Owner, Prot};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use understudy_formats::pages::Tracking;
use understudy_numbers::Epoch;

pub const PAGE: u64 = PAGE_SIZE as u64;
const WINDOW: u64 = 1 << 36;
static NEXT: AtomicU64 = AtomicU64::new(0x1000_0000_0000);

pub const NONE: i32 = libc::PROT_NONE;
pub const R: i32 = libc::PROT_READ;
pub const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Address range of one test; all other addresses are excluded.
pub struct TestProgram {
    pub window: AddrRange,
    pub zones: ExcludedRanges,
}

impl TestProgram {
    pub fn new() -> Self {
        let start = NEXT.fetch_add(WINDOW, Ordering::Relaxed);
        let window = AddrRange::new(start, start + WINDOW);
        let mut zones = ExcludedRanges::default();
        zones.exclude(AddrRange::new(0, window.start), Owner::Runtime);
        zones.exclude(AddrRange::new(window.end, u64::MAX), Owner::Runtime);
        Self { window, zones }
    }

    pub fn addr(&self, page: u64) -> u64 {
        self.window.start + page * PAGE
    }

    pub fn page(&self, page: u64) -> u64 {
        PageIndex::containing(self.addr(page)).0
    }

    pub fn layout(&self) -> Layout {
        Layout::read_self(&self.zones).unwrap()
    }

    pub fn map(&self, page: u64, pages: u64, prot: i32) {
        self.map_with(
            page,
            pages,
            prot,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            None,
        );
    }

    pub fn map_with(&self, page: u64, pages: u64, prot: i32, flags: i32, file: Option<&File>) {
        let bytes = (pages * PAGE) as usize;
        let at = self.addr(page) as *mut libc::c_void;
        let fd = file.map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: replaces mappings in the test's own range only.
        let got = unsafe { libc::mmap(at, bytes, prot, flags | libc::MAP_FIXED, fd, 0) };
        assert_eq!(got, at, "{}", std::io::Error::last_os_error());
    }

    pub fn unmap(&self, page: u64, pages: u64) {
        // SAFETY: the test's own range.
        let rc = unsafe { libc::munmap(self.addr(page) as *mut _, (pages * PAGE) as usize) };
        assert_eq!(rc, 0);
    }

    pub fn protect(&self, page: u64, pages: u64, prot: i32) {
        let at = self.addr(page) as *mut libc::c_void;
        // SAFETY: the test's own range.
        let rc = unsafe { libc::mprotect(at, (pages * PAGE) as usize, prot) };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
    }

    pub fn advise(&self, page: u64, pages: u64, advice: i32) -> bool {
        let at = self.addr(page) as *mut libc::c_void;
        // SAFETY: the test's own range.
        unsafe { libc::madvise(at, (pages * PAGE) as usize, advice) == 0 }
    }

    pub fn write(&self, page: u64, value: u8) {
        // SAFETY: the tests write only mapped, writable pages of their range.
        unsafe { ((self.addr(page) + 7) as *mut u8).write_volatile(value) };
    }

    pub fn fill(&self, page: u64, pages: u64, value: u8) {
        for i in page..page + pages {
            // SAFETY: the tests fill only mapped, writable pages of their range.
            unsafe { (self.addr(i) as *mut u8).write_bytes(value ^ i as u8, PAGE_SIZE) };
        }
    }

    pub fn read(&self, page: u64) -> u8 {
        // SAFETY: the tests read only mapped, readable pages of their range.
        unsafe { ((self.addr(page) + 7) as *const u8).read_volatile() }
    }

    /// Reads the layout, and all bytes through `/proc/self/mem`, which captures do not use.
    pub fn snapshot(&self) -> Snapshot {
        let layout = self.layout();
        let memory = File::open("/proc/self/mem").unwrap();
        let mut pages = BTreeMap::new();
        for area in layout.areas() {
            for page in area.pages().start.0..area.pages().end() {
                let mut bytes = vec![0; PAGE_SIZE];
                // Pages behind the end of a file cannot be read.
                if memory.read_exact_at(&mut bytes, page * PAGE).is_ok() {
                    pages.insert(page, bytes);
                }
            }
        }
        Snapshot { layout, pages }
    }
}

impl Drop for TestProgram {
    fn drop(&mut self) {
        // SAFETY: the test has finished and does not use its range any more.
        unsafe { libc::munmap(self.window.start as *mut _, self.window.len() as usize) };
    }
}

pub struct Snapshot {
    pub layout: Layout,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Snapshot {
    /// Returns access rights and backing of every mapped page.
    ///
    /// All shared mappings count as equal, because a segment that was mapped again has another
    /// inode.
    fn mappings(&self) -> Vec<(u64, Prot, Backing)> {
        let mut all = Vec::new();
        for area in self.layout.areas() {
            for (i, page) in (area.pages().start.0..area.pages().end()).enumerate() {
                let mut backing = area.backing.advanced(i as u64 * PAGE);
                if backing.is_shared() {
                    backing = Backing::SharedMemory {
                        dev: (0, 0),
                        inode: 0,
                        stored: false,
                        offset: 0,
                    };
                }
                all.push((page, area.prot, backing));
            }
        }
        all
    }

    pub fn assert_same(&self, other: &Self, what: &str) {
        assert_eq!(self.mappings(), other.mappings(), "{what}: layout");
        self.assert_same_pages(other, what);
    }

    pub fn assert_same_pages(&self, other: &Self, what: &str) {
        for (page, bytes) in &self.pages {
            let theirs = other.pages.get(page).map_or(&[][..], Vec::as_slice);
            let areas = other.layout.areas().iter();
            let area = areas.clone().find(|area| area.range.contains(page * PAGE));
            let heads = (bytes.get(..12), theirs.get(..12));
            assert!(
                theirs == bytes,
                "{what}: page {page:#x} differs: {heads:?} in {area:?}"
            );
        }
        assert_eq!(
            self.pages.len(),
            other.pages.len(),
            "{what}: readable pages"
        );
    }
}

/// Checkpoint state of one rank.
pub struct TestRank {
    pub tracker: Tracker,
    pub store: PageStore,
    pub image: Image,
    pub saved: Layout,
    /// Pages whose content is not needed.
    pub omitted: Vec<PageRun>,
    /// Pages that a commit elides and that a rollback finds unchanged.
    pub elided: Vec<PageRun>,
}

fn config(pages: u64) -> StoreConfig {
    StoreConfig {
        base: None,
        capacity_pages: pages,
        dont_fork: false,
    }
}

pub fn new_store(pages: u64) -> PageStore {
    PageStore::new(config(pages)).unwrap()
}

/// Creates a store in files, which outlives its process.
pub fn store_in(files: ArenaFiles, pages: u64, used: &[Extent]) -> PageStore {
    PageStore::in_files(config(pages), files, used).unwrap()
}

impl TestRank {
    pub fn new(choice: Tracking) -> Self {
        Self {
            tracker: Tracker::select(choice).unwrap().tracker,
            store: new_store(1 << 20),
            image: Image::new(),
            saved: Layout::default(),
            omitted: Vec::new(),
            elided: Vec::new(),
        }
    }

    pub fn capture(&mut self, user: &TestProgram) -> Delta {
        self.capture_extra(user, &[])
    }

    pub fn capture_extra(&mut self, user: &TestProgram, extra: &[AddrRange]) -> Delta {
        let next = Epoch(self.image.epoch().0 + 1);
        self.saved = user.layout();
        let Self { tracker, store, .. } = self;
        let delta = capture(
            tracker,
            &self.saved,
            extra,
            CaptureOptions {
                omitted: &self.omitted,
                short_lived: &self.elided,
            },
            next,
            store,
            &self.image,
        )
        .unwrap()
        .delta;
        store.seal(delta.runs());
        delta
    }

    pub fn commit(&mut self, user: &TestProgram) -> Delta {
        let delta = self.capture(user);
        let summary = Delta {
            base: delta.base,
            epoch: delta.epoch,
            runs: delta.runs.clone(),
            dropped: delta.dropped.clone(),
        };
        self.image.apply(delta, &mut self.store).unwrap();
        self.image.elide(&self.elided, &mut self.store);
        assert_eq!(self.image.page_count(), self.store.live());
        summary
    }

    pub fn rollback(&mut self, user: &TestProgram) -> RestoreStats {
        restore_layout(&self.saved, &user.zones, LayoutOrigin::Own).unwrap();
        restore_pages(
            &mut self.tracker,
            &self.saved,
            &self.image,
            &self.store,
            &self.elided,
        )
        .unwrap()
    }
}

pub const BOTH: [Tracking; 2] = [Tracking::PagemapScan, Tracking::Compare];

/// Runs the body with each tracker that the kernel offers.
pub fn with_each(body: impl Fn(Tracking)) {
    for choice in BOTH {
        match Tracker::select(choice) {
            Ok(_) => body(choice),
            Err(why) => skip(&format!("{choice:?} is not available: {why}")),
        }
    }
}

/// Reports that the running test lacks a feature of the kernel.
///
/// The test shows less then, or nothing.
///
/// The line is written past the test harness, which hides the output of tests that pass.
///
/// # Panics
/// Panics if `FFI_TESTS_REQUIRE` has `machine` or `all`, as a test of a job does.
pub fn skip(reason: &str) {
    let required = std::env::var("FFI_TESTS_REQUIRE").unwrap_or_default();
    let is_required = |name: &str| ["all", "machine"].contains(&name);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unknown test");
    let is_failure = required.split(',').any(is_required);
    assert!(!is_failure, "{test} would be skipped: {reason}");
    // A harness without standard error shows no results either.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// Returns the kernel's tracking of writes.
///
/// Returns `None`, and skips the test, if it is not available.
pub fn kernel_tracking() -> Option<(Uffd, Pagemap)> {
    let opened = Uffd::open().and_then(|uffd| Ok((uffd, Pagemap::open()?)));
    let reason = |error: &std::io::Error| skip(&format!("writes are not tracked: {error}"));
    opened.inspect_err(reason).ok()
}

/// Small random generator (xorshift64*), sufficient to shuffle operations.
pub struct Random(pub u64);

impl Random {
    pub fn seeded(name: &str) -> Self {
        let given = std::env::var("UNDERSTUDY_TEST_SEED").ok();
        let seed = given.and_then(|s| s.parse().ok()).unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
            since.as_nanos() as u64 | 1
        });
        println!("{name}: UNDERSTUDY_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % n
    }
}

/// File of `pages` pages filled with `value`, removed on drop.
pub struct TempFile(pub std::path::PathBuf);

impl TempFile {
    pub fn new(name: &str, pages: u64, value: u8) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("understudy-{}-{n}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![value; (pages * PAGE) as usize]).unwrap();
        Self(path)
    }

    pub fn open(&self) -> File {
        File::options()
            .read(true)
            .write(true)
            .open(&self.0)
            .unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
