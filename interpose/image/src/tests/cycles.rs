//! Capture, change and restore of memory with both trackers, for each kind of change.

#![allow(unsafe_code)]

use super::support::*;
use crate::pages::{AddrRange, PageRun};
use crate::restore::{RestoreError, restore_pages};
use understudy_formats::pages::Tracking;

const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

/// Asserts that rollbacks undo `change` on memory that `prepare` has set up.
///
/// The memory is committed twice, changed and rolled back twice. The changed memory is then
/// committed, changed again and rolled back.
fn cycle(prepare: impl Fn(&TestProgram), change: impl Fn(&TestProgram)) {
    with_each(|choice| {
        let user = TestProgram::new();
        prepare(&user);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        rank.commit(&user);
        let want = user.snapshot();
        for round in 0..2 {
            change(&user);
            rank.rollback(&user);
            user.snapshot()
                .assert_same(&want, &format!("{choice:?} round {round}"));
        }
        change(&user);
        rank.commit(&user);
        let want = user.snapshot();
        change(&user);
        rank.rollback(&user);
        user.snapshot()
            .assert_same(&want, &format!("{choice:?} next checkpoint"));
    });
}

#[test]
fn writes() {
    cycle(
        |u| {
            u.map(0, 64, RW);
            u.fill(8, 32, 1);
        },
        |u| {
            u.fill(20, 30, 7);
            u.write(3, 9);
        },
    );
}

/// Pages are omitted; they are in no image meanwhile, and zero after a rollback.
#[test]
fn pages_that_are_left_out() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 64, RW);
        user.fill(0, 64, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        rank.omitted = vec![PageRun::between(user.page(8), user.page(16))];
        rank.commit(&user);
        user.fill(7, 3, 2);
        rank.rollback(&user);
        let seen = [7, 8, 15, 16].map(|page| user.read(page));
        assert_eq!(seen, [1 ^ 7, 0, 0, 1 ^ 16], "{choice:?}");
        user.fill(8, 4, 3);
        rank.omitted.clear();
        rank.commit(&user);
        user.fill(7, 9, 4);
        rank.rollback(&user);
        let seen = [7, 8, 11, 15].map(|page| user.read(page));
        assert_eq!(seen, [1 ^ 7, 3 ^ 8, 3 ^ 11, 0], "{choice:?}");
    });
}

/// Pages are elided; they use no slot, and a rollback does not restore them.
///
/// A rollback that needs the content of an elided page reports the page as absent.
#[test]
fn pages_that_are_given_up() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 64, RW);
        user.fill(0, 64, 100);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        rank.elided = vec![PageRun::between(user.page(8), user.page(16))];
        for value in 102..105 {
            user.fill(4, 8, value);
            rank.commit(&user);
            assert_eq!(
                (rank.image.page_count(), rank.store.live()),
                (56, 56),
                "{choice:?}"
            );
            user.fill(4, 8, 107);
            // The test itself restores these pages before the rollback.
            user.fill(8, 4, value);
            rank.rollback(&user);
            let seen = [4, 7, 8, 11, 15].map(|page| user.read(page));
            let v = value;
            assert_eq!(seen, [v ^ 4, v ^ 7, v ^ 8, v ^ 11, 100 ^ 15], "{choice:?}");
        }
        user.fill(11, 1, 9);
        rank.elided.clear();
        let restored = restore_pages(
            &mut rank.tracker,
            &rank.saved,
            &rank.image,
            &rank.store,
            &[],
        );
        assert!(
            matches!(restored, Err(RestoreError::Absent { page }) if page == user.page(11)),
            "{choice:?}"
        );
        // The image of the next commit contains page 11.
        rank.commit(&user);
        user.fill(11, 1, 3);
        rank.rollback(&user);
        assert_eq!(user.read(11), 9 ^ 11, "{choice:?}");
    });
}

/// The kernel does not report writes; the scanning tracker finds them in exposed pages only.
///
/// The comparing tracker finds all of them.
#[test]
fn exposed_pages() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 64, RW);
        user.fill(0, 64, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        rank.tracker
            .expose(&[PageRun::between(user.page(8), user.page(16))]);
        let write_unseen = |rank: &mut TestRank, page| {
            user.write(page, 9);
            rank.tracker.arm(&user.layout(), &[]).unwrap();
        };
        write_unseen(&mut rank, 10);
        assert_eq!(rank.commit(&user).page_count(), 1, "{choice:?}");
        write_unseen(&mut rank, 11);
        rank.rollback(&user);
        assert_eq!([user.read(10), user.read(11)], [9, 1 ^ 11], "{choice:?}");
        rank.tracker.expose_only(Vec::new());
        write_unseen(&mut rank, 12);
        let found = rank.commit(&user).page_count();
        assert_eq!(found, u64::from(choice == Tracking::Compare), "{choice:?}");
    });
}

#[test]
fn dropped_pages() {
    cycle(
        |u| {
            u.map(0, 64, RW);
            u.fill(0, 64, 1);
        },
        |u| {
            assert!(u.advise(10, 20, libc::MADV_DONTNEED));
            u.write(15, 3);
            assert_eq!(u.read(16), 0);
        },
    );
}

#[test]
fn unmapped_and_new_mappings() {
    cycle(
        |u| {
            u.unmap(0, 128);
            u.map(0, 64, RW);
            u.fill(0, 64, 1);
        },
        |u| {
            u.unmap(0, 128);
            u.map(20, 20, RW);
            u.fill(25, 5, 9);
            u.map(100, 5, RW);
            u.fill(100, 5, 4);
        },
    );
}

#[test]
fn a_new_mapping_in_place_of_an_old_one() {
    cycle(
        |u| {
            u.map(0, 64, RW);
            u.fill(0, 64, 1);
        },
        |u| {
            u.map(10, 10, RW);
            u.write(12, 1);
        },
    );
}

#[test]
fn access_rights() {
    cycle(
        |u| {
            u.map(0, 64, RW);
            u.fill(0, 64, 1);
            u.protect(0, 8, NONE);
            u.protect(8, 8, R);
        },
        |u| {
            u.protect(0, 64, RW);
            u.fill(4, 10, 8);
            u.protect(30, 8, R);
            u.protect(50, 8, NONE);
            u.protect(2, 4, NONE);
        },
    );
}

#[test]
fn private_file() {
    let file = TempFile::new("cycle", 32, 5);
    cycle(
        |u| {
            u.map_with(0, 32, RW, libc::MAP_PRIVATE, Some(&file.open()));
            u.fill(4, 8, 1);
            u.protect(4, 2, R);
            assert_eq!(u.read(20), 5);
        },
        |u| {
            u.protect(0, 28, RW);
            u.write(1, 1);
            u.write(20, 1);
            assert!(u.advise(5, 4, libc::MADV_DONTNEED));
            assert!(u.advise(20, 1, libc::MADV_DONTNEED));
            u.write(21, 1);
            u.unmap(28, 2);
        },
    );
}

#[test]
fn shared_memory() {
    cycle(
        |u| {
            u.map_with(0, 32, RW, SHARED, None);
            u.fill(0, 16, 1);
            // Removes the pages from the page tables, but not from the shared object.
            assert!(u.advise(4, 4, libc::MADV_DONTNEED));
        },
        |u| {
            u.fill(2, 4, 9);
            u.fill(20, 4, 9);
            assert!(u.advise(0, 32, libc::MADV_DONTNEED));
            u.write(30, 1);
            assert!(u.advise(9, 3, libc::MADV_REMOVE));
        },
    );
}

#[test]
fn shared_file() {
    let file = TempFile::new("shared", 16, 5);
    cycle(
        |u| u.map_with(0, 32, RW, libc::MAP_SHARED, Some(&file.open())),
        |u| {
            u.write(2, u.read(2) + 1);
            assert!(u.advise(0, 16, libc::MADV_DONTNEED));
            u.write(3, u.read(3) + 1);
        },
    );
}

#[test]
fn huge_pages() {
    cycle(
        |u| {
            let first = 512 - u.page(0) % 512;
            u.map(first, 1024, RW);
            u.advise(first, 1024, libc::MADV_HUGEPAGE);
            u.fill(first, 700, 1);
        },
        |u| {
            let first = 512 - u.page(0) % 512;
            u.fill(first + 100, 3, 7);
            assert!(u.advise(first + 200, 400, libc::MADV_DONTNEED));
            u.write(first + 1000, 1);
        },
    );
}

#[test]
fn guard_pages_are_skipped_and_removed() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 16, RW);
        user.fill(0, 16, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        let want = user.snapshot();
        if !user.advise(4, 2, 102) {
            return skip("the kernel has no guard pages (MADV_GUARD_INSTALL)");
        }
        rank.rollback(&user);
        user.snapshot().assert_same(&want, "after removal");
        user.advise(4, 2, 102);
        let delta = rank.commit(&user);
        let guarded = PageRun::between(user.page(4), user.page(6));
        assert_eq!(delta.dropped(), [guarded]);
    });
}

#[test]
fn the_delta_has_only_changed_pages() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 64, RW);
        user.fill(8, 16, 1);
        let mut rank = TestRank::new(choice);
        let pages = |from, to| PageRun::between(user.page(from), user.page(to));
        assert_eq!(rank.commit(&user).pages(), [pages(8, 24)]);
        let nothing = rank.commit(&user);
        assert!(nothing.pages().is_empty() && nothing.dropped().is_empty());
        user.write(9, 77);
        user.write(60, 77);
        assert!(user.advise(20, 2, libc::MADV_DONTNEED));
        let delta = rank.commit(&user);
        assert_eq!(delta.pages(), [pages(9, 10), pages(60, 61)]);
        assert_eq!(delta.dropped(), [pages(20, 22)]);
        user.write(9, 78);
        let stats = rank.rollback(&user);
        assert_eq!((stats.copied, stats.dropped), (1, 0));
    });
}

#[test]
fn an_abandoned_delta_is_in_the_next_one_and_in_a_rollback() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 16, RW);
        user.fill(0, 8, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        let want = user.snapshot();
        user.write(3, 50);
        user.write(12, 50);
        let lost = rank.capture(&user);
        rank.tracker.abandon(lost, &mut rank.store);
        let again = rank.capture(&user);
        assert_eq!(again.page_count(), 2);
        rank.tracker.abandon(again, &mut rank.store);
        rank.rollback(&user);
        user.snapshot()
            .assert_same(&want, "rollback over an abandoned delta");
        assert_eq!(rank.store.live(), rank.image.page_count());
    });
}

/// Omitted pages that an abandoned capture has write-protected are restored by a rollback.
#[test]
fn what_an_abandoned_delta_left_out_is_put_back() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 16, RW);
        user.fill(0, 16, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        let want = user.snapshot();
        user.fill(4, 8, 2);
        rank.omitted = vec![PageRun::between(user.page(4), user.page(8))];
        let lost = rank.capture(&user);
        rank.tracker.abandon(lost, &mut rank.store);
        rank.omitted.clear();
        rank.rollback(&user);
        user.snapshot().assert_same(&want, &format!("{choice:?}"));
    });
}

#[test]
fn extra_ranges_are_always_copied_and_always_put_back() {
    with_each(|choice| {
        let mut user = TestProgram::new();
        user.map(0, 4, RW);
        user.map(32, 4, RW);
        user.fill(32, 4, 1);
        // The second mapping represents the stack: not tracked, but passed as extra.
        let stack = AddrRange::new(user.addr(32), user.addr(36));
        user.zones.exclude(stack, crate::vmas::Owner::Stack);
        let live = AddrRange::new(user.addr(33) + 100, stack.end);
        let mut rank = TestRank::new(choice);
        for value in [10, 20] {
            user.fill(32, 4, value);
            let delta = rank.capture_extra(&user, &[live]);
            assert_eq!(delta.page_count(), 3);
            rank.image.apply(delta, &mut rank.store).unwrap();
        }
        user.fill(32, 4, 30);
        rank.rollback(&user);
        assert_eq!(user.read(32), 30 ^ 32);
        assert!((33..36).all(|page| user.read(page) == 20 ^ page as u8));
    });
}

#[test]
fn excluded_ranges_are_left_alone() {
    with_each(|choice| {
        let mut user = TestProgram::new();
        user.map(0, 16, RW);
        let own = AddrRange::new(user.addr(4), user.addr(8));
        user.zones.exclude(own, crate::vmas::Owner::Runtime);
        user.fill(0, 16, 1);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        user.fill(0, 16, 2);
        user.protect(4, 2, R);
        rank.rollback(&user);
        assert_eq!(user.read(3), 1 ^ 3);
        assert!((4..8).all(|page| user.read(page) == 2 ^ page as u8));
        assert_eq!(user.read(8), 1 ^ 8);
    });
}

/// Automatic selection always returns a tracker; the test prints the reason for a fallback.
#[test]
fn automatic_selection_returns_a_tracker() {
    let auto = crate::track::Tracker::select(Tracking::Auto).unwrap();
    println!("auto selects without {:?}", auto.fallback);
}

#[test]
fn a_lost_image_is_captured_whole_although_nothing_was_written() {
    with_each(|choice| {
        let user = TestProgram::new();
        user.map(0, 16, RW);
        // Comparison omits pages of zeros, so none of these pages may contain only zeros.
        user.fill(0, 8, 100);
        let mut rank = TestRank::new(choice);
        rank.commit(&user);
        rank.image.clear(&mut rank.store);
        assert_eq!(rank.commit(&user).page_count(), 8);
    });
}

/// Pages vanish with their page tables; a capture still drops them from the image.
///
/// No entry of a page table reports their removal.
#[test]
fn pages_that_vanish_with_their_tables() {
    const TABLE: u64 = 512;
    with_each(|choice| {
        let user = TestProgram::new();
        let mut rank = TestRank::new(choice);
        for round in 0..3u8 {
            user.map(0, 4 * TABLE, RW);
            user.fill(0, 4 * TABLE, 1 + round);
            rank.commit(&user);
            rank.commit(&user);
            // The pages of the first table are dropped, those of the next two mapped anew, those of
            // the last dropped and one of them written.
            assert!(user.advise(0, TABLE, libc::MADV_DONTNEED));
            user.map(TABLE, 2 * TABLE, RW);
            assert!(user.advise(3 * TABLE, TABLE, libc::MADV_DONTNEED));
            user.write(3 * TABLE + 7, 9);
            let want = user.snapshot();
            let delta = rank.commit(&user);
            assert_eq!(delta.page_count(), 1, "{choice:?} round {round}");
            user.fill(0, 4 * TABLE, 77);
            rank.rollback(&user);
            user.snapshot()
                .assert_same(&want, &format!("{choice:?} round {round}"));
        }
    });
}
