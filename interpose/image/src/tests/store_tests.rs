//! Comparison of the allocator with a model.

#![allow(unsafe_code)]

use super::support::*;
use crate::PAGE_SIZE;
use crate::prefault::Prefault;
use crate::store::{ArenaFiles, Extent, PageStore, Slot, StoreError};
use std::collections::BTreeSet;

fn slots(extents: &[Extent]) -> impl Iterator<Item = u64> + '_ {
    extents.iter().flat_map(|e| e.first.0..e.first.0 + e.len)
}

fn stamp(store: &PageStore, extents: &[Extent], value: u64) {
    for slot in slots(extents) {
        let at = store.ptr(crate::store::Slot(slot)).cast::<u64>();
        // SAFETY: the callers pass allocated slots.
        unsafe { at.write(value ^ slot) };
    }
}

fn check(store: &PageStore, extents: &[Extent], value: u64) {
    for slot in slots(extents) {
        let at = store.ptr(crate::store::Slot(slot)).cast::<u64>();
        // SAFETY: the callers pass allocated slots.
        assert_eq!(unsafe { at.read() }, value ^ slot);
    }
}

#[test]
fn random_allocations_never_overlap_and_keep_their_content() {
    for store in [
        new_store(1 << 16),
        store_in(ArenaFiles::new().unwrap(), 1 << 16, &[]),
    ] {
        allocate_at_random(store);
    }
}

fn allocate_at_random(mut store: PageStore) {
    let mut random = Random::seeded("store");
    let mut taken: Vec<(Vec<Extent>, u64)> = Vec::new();
    for step in 0..4000 {
        match random.below(8) {
            0..=3 => {
                let most = if random.below(4) == 0 { 3000 } else { 50 };
                let n = 1 + random.below(most);
                let Ok(extents) = store.alloc(n) else {
                    continue;
                };
                assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), n);
                stamp(&store, &extents, step);
                taken.push((extents, step));
            }
            4..=6 if !taken.is_empty() => {
                let at = random.below(taken.len() as u64) as usize;
                let (extents, value) = taken.swap_remove(at);
                check(&store, &extents, value);
                store.release(extents);
            }
            7 => store.give_back(random.below(2000)).unwrap(),
            _ => Prefault::start(store.take_untouched(random.below(100))).wait(),
        }
        let live: u64 = taken.iter().flat_map(|(e, _)| e).map(|e| e.len).sum();
        assert_eq!(store.live(), live);
    }
    let mut all = BTreeSet::new();
    for (extents, value) in &taken {
        check(&store, extents, *value);
        assert!(
            slots(extents).all(|slot| all.insert(slot)),
            "slot allocated twice"
        );
    }
    for (extents, _) in taken {
        store.release(extents);
    }
    assert_eq!(
        (store.live(), store.free_slots()),
        (0, 0),
        "no slot is used, and all free slots are joined"
    );
}

#[test]
fn one_extent_is_preferred_and_fragments_serve_when_there_is_no_room() {
    let mut store = new_store(16384);
    let parts: Vec<Vec<Extent>> = (0..16).map(|_| store.alloc(1024).unwrap()).collect();
    assert!(parts.iter().all(|extents| extents.len() == 1));
    assert!(matches!(store.alloc(1), Err(StoreError::Full { .. })));
    for part in parts.into_iter().step_by(2) {
        store.release(part);
    }
    let pieces = store.alloc(3000).unwrap();
    assert_eq!(pieces.len(), 3);
    assert!(matches!(
        store.alloc_contiguous(1025),
        Err(StoreError::Full { .. })
    ));
    let before = store.live();
    assert!(store.alloc_extents(&[1024, 1024, 1025]).is_err());
    assert_eq!(store.live(), before, "a failed allocation uses no slots");
    assert_eq!(store.alloc_extents(&[1024, 512, 512]).unwrap().len(), 3);
}

#[test]
fn churn_does_not_let_the_arena_creep() {
    let mut random = Random::seeded("churn");
    let mut store = new_store(1 << 20);
    let mut pages: Vec<Extent> = Vec::new();
    for _ in 0..200 {
        for extent in store.alloc(2000).unwrap() {
            for slot in slots(&[extent]) {
                let first = crate::store::Slot(slot);
                pages.push(Extent { first, len: 1 });
            }
        }
        while pages.len() > 8000 {
            let at = random.below(pages.len() as u64) as usize;
            let page = pages.swap_remove(at);
            store.release([page]);
        }
    }
    assert!(store.live() + store.free_slots() < 3 * 10_000 + 16384);
}

/// Each delta is a few pages longer than the previous delta.
///
/// No freed extent is long enough for the next delta. Nevertheless the arena hardly grows beyond
/// the maximum number of slots in use.
#[test]
fn deltas_of_growing_length_do_not_spread_over_the_arena() {
    let mut store = new_store(1 << 20);
    let mut deltas = std::collections::VecDeque::new();
    let mut most_used = 0;
    for epoch in 0..100 {
        deltas.push_back(store.alloc(4096 + 3 * epoch).unwrap());
        let chunks: Vec<u64> = (0..16).map(|_| 256 + epoch / 2).collect();
        deltas.push_back(store.alloc_extents(&chunks).unwrap());
        most_used = most_used.max(store.live());
        while deltas.len() > 2 {
            store.release(deltas.pop_front().unwrap());
        }
    }
    let arena = store.live() + store.free_slots();
    assert!(
        arena <= most_used * 21 / 20,
        "{arena} slots for {most_used}"
    );
}

/// Memory is prepared once, unless it was returned to the kernel since.
#[test]
fn only_memory_that_was_never_accessed_is_prepared() {
    let mut store = new_store(1 << 16);
    let used = store.alloc(100).unwrap();
    store.release(used);
    assert_eq!(store.take_untouched(100), []);
    let [new] = store.take_untouched(150)[..] else {
        panic!("one range");
    };
    assert_eq!(new.start, store.ptr(Slot(100)) as u64);
    assert_eq!(new.len(), 50 * PAGE_SIZE as u64);
    assert_eq!(store.take_untouched(150), []);
    store.give_back(0).unwrap();
    assert_eq!(store.take_untouched(10)[0].len(), 10 * PAGE_SIZE as u64);
}

#[test]
fn pages_in_files_outlive_their_store() {
    let files = ArenaFiles::new().unwrap();
    let mut store = store_in(files.clone(), 1 << 16, &[]);
    let kept: Vec<Extent> = (0..3).map(|_| store.alloc(700).unwrap()[0]).collect();
    let gone = store.alloc(100).unwrap();
    stamp(&store, &kept, 7);
    slots(&kept).for_each(|slot| store.set_sum(Slot(slot), slot * 3));
    store.release([kept[1]]);
    store.release(gone);
    let used = [kept[0], kept[2]];
    let (live, free) = (store.live(), store.free_slots());
    drop(store);
    let mut store = store_in(files, 1 << 16, &used);
    assert_eq!((store.live(), store.free_slots()), (live, free));
    check(&store, &used, 7);
    slots(&used).for_each(|slot| assert_eq!(store.sum(Slot(slot)), slot * 3));
    let new = store.alloc(20_000).unwrap();
    stamp(&store, &new, 8);
    check(&store, &used, 7);
    store.give_back(0).unwrap();
    check(&store, &used, 7);
    check(&store, &new, 8);
}

/// All slots are in use; another store opens the files and keeps the content.
#[test]
fn a_full_store_in_files_can_be_reopened() {
    const SLOTS: u64 = 1 << 14;
    let files = ArenaFiles::new().unwrap();
    let mut store = store_in(files.clone(), SLOTS, &[]);
    let used = store.alloc(SLOTS).unwrap();
    stamp(&store, &used, 7);
    drop(store);
    let store = store_in(files, SLOTS, &used);
    assert_eq!((store.live(), store.free_slots()), (SLOTS, 0));
    check(&store, &used, 7);
}

#[test]
fn protected_slots_are_not_reused() {
    let mut store = new_store(1 << 14);
    let parts: Vec<Extent> = (0..4).map(|_| store.alloc(10).unwrap()[0]).collect();
    store.protect([parts[1], parts[2]]);
    store.release(parts.clone());
    assert_eq!(store.live(), 20);
    let others = store.alloc(30).unwrap();
    assert!(slots(&others).all(|slot| !(10..30).contains(&slot)));
    store.release(others);
    store.protect([parts[2]]);
    assert_eq!(store.live(), 10);
    store.protect([]);
    assert_eq!((store.live(), store.free_slots()), (0, 0));
}
