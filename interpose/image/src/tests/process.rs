//! Loading an image into another process.

#![allow(unsafe_code)]

use super::support::*;
use crate::layout::Layout;
use crate::pages::{AddrRange, PageIndex, PageRun, normalise};
use crate::procmap::with_own_maps;
use crate::remap::{LayoutOrigin, restore_layout};
use crate::restore::{RestoreError, load_all};
use crate::store::Slot;
use crate::track::Tracker;
use crate::vmas::{ExcludedRanges, Owner};
use understudy_formats::pages::Tracking;

/// Runs `body` in a forked child; panics unless the child exits with status 0.
fn in_child(body: impl FnOnce() + std::panic::UnwindSafe) {
    // No thread of another test may own the lock of the mapping list at the fork: in the child that
    // lock would never be released. SAFETY: the child only runs `body` and leaves by `_exit`.
    let pid = with_own_maps(|_| unsafe { libc::fork() }).unwrap();
    if pid == 0 {
        let ok = std::panic::catch_unwind(body).is_ok();
        // SAFETY: leaves the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!ok)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that this function has created; `status` is writable.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(status, 0, "the child failed");
}

#[test]
fn a_child_with_other_memory_takes_the_image_over() {
    with_each(|choice| {
        let user = TestProgram::new();
        let file = TempFile::new("spare", 16, 5);
        user.map(0, 64, RW);
        user.fill(0, 40, 1);
        user.map_with(80, 16, RW, libc::MAP_PRIVATE, Some(&file.open()));
        user.fill(82, 3, 1);
        user.protect(10, 4, NONE);
        user.map_with(120, 8, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, None);
        user.fill(121, 3, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        let want = user.snapshot();
        let rank = std::panic::AssertUnwindSafe(rank);
        in_child(|| {
            let rank = &*{ rank };
            // A spare has other content at these addresses, and shares no memory with the worker.
            user.unmap(0, 200);
            user.map(30, 100, RW);
            user.fill(30, 100, 99);
            let mut tracker = Tracker::select(choice).unwrap().tracker;
            let stats =
                restore_layout(&rank.saved, &user.zones, LayoutOrigin::OtherProcess).unwrap();
            assert!(!stats.break_differs);
            load_all(
                &mut tracker,
                &rank.saved,
                &rank.image,
                &rank.store,
                None,
                &|_| false,
            )
            .unwrap();
            let got = user.snapshot();
            let strip =
                |layout: &Layout| layout.areas().iter().map(|a| (a.range, a.prot)).collect();
            let (a, b): (Vec<_>, Vec<_>) = (strip(&got.layout), strip(&want.layout));
            assert_eq!(a, b);
            got.assert_same_pages(&want, "in the child");
        });
    });
}

/// Two threads load a long image; all pages are restored, or damage is reported.
#[test]
fn a_long_image_is_loaded_whole_or_found_damaged() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(3, 3000, RW);
        user.fill(3, 1700, 1);
        user.fill(1706, 1200, 2);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        user.fill(1000, 40, 3);
        let changed = [5, 511, 1010, 1011, 2905];
        changed
            .iter()
            .for_each(|&page| user.write(page, user.read(page) ^ 1));
        rank.commit(&user);
        assert!(
            rank.image.page_count() > 1024,
            "{} pages",
            rank.image.page_count()
        );
        let want = user.snapshot();
        let rank = std::panic::AssertUnwindSafe(rank);
        in_child(|| {
            let rank = { rank };
            let mut tracker = Tracker::select(choice).unwrap().tracker;
            let is_changed = |page: &[u8]| page[7] != page[8];
            let mut load = || {
                load_all(
                    &mut tracker,
                    &rank.saved,
                    &rank.image,
                    &rank.store,
                    None,
                    &is_changed,
                )
            };
            user.unmap(3, 3000);
            user.map(3, 3000, RW);
            user.fill(2000, 10, 99);
            let found = load().unwrap().selected;
            let pages = changed.map(|page| PageIndex::containing(user.addr(page)).0);
            let expected = pages.map(|page| PageRun::between(page, page + 1));
            assert_eq!(found, normalise(expected.to_vec()));
            user.snapshot().assert_same_pages(&want, "in the child");
            let run = rank
                .image
                .runs()
                .iter()
                .max_by_key(|run| run.pages.pages)
                .unwrap();
            let middle = run.pages.pages / 2;
            let slot = Slot(run.slot.0 + middle);
            // SAFETY: a slot of the image, which has no other user meanwhile.
            unsafe { *rank.store.ptr(slot).add(7) ^= 1 };
            let page = run.pages.start.0 + middle;
            assert!(matches!(load(), Err(RestoreError::Damaged { page: found }) if found == page));
            // SAFETY: the slot of the image that was changed above; no other code uses it now.
            unsafe { *rank.store.ptr(slot).add(7) ^= 1 };
            load().unwrap();
            user.snapshot().assert_same_pages(&want, "after the damage");
        });
    });
}

/// The program break has moved since the checkpoint; a restore moves it back.
///
/// The memory below the break is also restored. The heap is that of a child, from the end of the
/// test's own heap on.
#[test]
fn the_brk_heap_is_restored_with_its_end() {
    in_child(|| {
        // SAFETY: reads and moves the break of this child. The child's malloc(3) tolerates a moved
        // break.
        let brk = |to: u64| unsafe { libc::syscall(libc::SYS_brk, to) as u64 };
        let start = brk(0).next_multiple_of(PAGE);
        assert_eq!(brk(start + 64 * PAGE), start + 64 * PAGE);
        let fill = |value| {
            // SAFETY: the first 16 pages of the heap just grown.
            unsafe { (start as *mut u8).write_bytes(value, 16 * PAGE as usize) };
        };
        let mut zones = ExcludedRanges::default();
        zones.exclude(AddrRange::new(0, start), Owner::Runtime);
        zones.exclude(AddrRange::new(start + (1 << 30), u64::MAX), Owner::Runtime);
        let user = std::mem::ManuallyDrop::new(TestProgram {
            window: AddrRange::new(start, start + (1 << 30)),
            zones,
        });
        fill(1);
        let mut rank = TestRank::new(Tracking::Auto);
        rank.commit(&user);
        assert!(
            rank.saved
                .heap()
                .is_some_and(|heap| heap.end == start + 64 * PAGE)
        );
        let want = user.snapshot();
        for other in [8, 200] {
            assert_eq!(brk(start + other * PAGE), start + other * PAGE);
            // SAFETY: the first page of the heap is mapped, whatever the break is.
            unsafe { (start as *mut u8).write(7) };
            let stats =
                restore_layout(&rank.saved, &user.zones, LayoutOrigin::OtherProcess).unwrap();
            assert!(!stats.break_differs);
            rank.rollback(&user);
            assert_eq!(brk(0), start + 64 * PAGE);
            user.snapshot().assert_same(&want, "heap");
        }
    });
}
