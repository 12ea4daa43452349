//! Pages of one worker that another worker's image contains, too.

#![allow(unsafe_code)]

use super::support::new_store;
use super::wire_tests::{assert_same_image, options, transfer};
use crate::PAGE_SIZE;
use crate::deduplication::{PageQuery, decode_answer, sample};
use crate::image_delta::{Delta, Image, SlotRun, lay_out};
use crate::pages::{self, PageRun};
use crate::store::{PageStore, Slot};
use crate::wire::{Header, Incoming};
use understudy_numbers::Epoch;

/// Allocates these pages and fills each with one byte.
fn fill(pages: &[(u64, u8)], store: &mut PageStore) -> Vec<SlotRun> {
    let mut list = Vec::new();
    pages
        .iter()
        .for_each(|&(page, _)| pages::push(&mut list, PageRun::between(page, page + 1)));
    let extents = store.alloc(pages::total(&list)).unwrap();
    let runs = lay_out(&list, &extents);
    let slots = runs
        .iter()
        .flat_map(|run| run.slot.0..run.slot.0 + run.pages.pages);
    for (slot, &(_, byte)) in slots.zip(pages) {
        store.fill(Slot(slot), &[byte; PAGE_SIZE]);
    }
    store.seal(&runs);
    runs
}

fn image(pages: &[(u64, u8)], store: &mut PageStore) -> Image {
    Image::from_parts(Epoch(1), fill(pages, store))
}

fn pages(list: &[(u64, u64)]) -> Vec<PageRun> {
    list.iter()
        .map(|&(start, end)| PageRun::between(start, end))
        .collect()
}

fn query_for(runs: &[SlotRun], store: &PageStore) -> PageQuery {
    PageQuery::new(runs, store.identities(runs), store)
}

const WORKER_PAGES: &[(u64, u8)] = &[
    (10, 1),
    (11, 2),
    (12, 3),
    (13, 4),
    (20, 5),
    (21, 6),
    (30, 7),
];
/// Pages of the buddy, of which 10, 12, 13, 20 and 30 equal the worker's.
const BUDDY_PAGES: &[(u64, u8)] = &[
    (9, 1),
    (10, 1),
    (11, 1),
    (12, 3),
    (13, 4),
    (20, 5),
    (22, 6),
    (30, 7),
    (31, 7),
];

#[test]
fn pages_of_the_same_number_and_content_are_found() {
    let (mut worker_store, mut buddy_store) = (new_store(1 << 14), new_store(1 << 14));
    let copy = fill(WORKER_PAGES, &mut worker_store);
    let own = image(BUDDY_PAGES, &mut buddy_store);
    let query = PageQuery::decode(&query_for(&copy, &worker_store).encode()).unwrap();
    let found = query.find_in(&own, &buddy_store);
    let same = pages(&[(10, 11), (12, 14), (20, 21), (30, 31)]);
    assert_eq!(
        decode_answer(query.pages(), &query.encode_answer(&found)),
        same
    );
    assert_eq!(found, own.slots_of(&same));
    // A page that was damaged after the capture is not equal, although its stored checksum is.
    let damaged = own.slots_of(&pages(&[(12, 13)]))[0].slot;
    // SAFETY: a byte of an allocated slot, to which no reference exists.
    unsafe { *buddy_store.ptr(damaged) ^= 1 };
    let found = query.find_in(&own, &buddy_store);
    assert_eq!(
        decode_answer(query.pages(), &query.encode_answer(&found)),
        pages(&[(10, 11), (13, 14), (20, 21), (30, 31)])
    );
    let nothing = query.find_in(&Image::new(), &buddy_store);
    assert_eq!(
        decode_answer(query.pages(), &query.encode_answer(&nothing)),
        []
    );
}

#[test]
fn a_page_query_of_a_wrong_length_is_refused() {
    let mut store = new_store(1 << 14);
    let runs = fill(WORKER_PAGES, &mut store);
    let mut bytes = query_for(&runs, &store).encode();
    let short = PageQuery::new(&runs, vec![0; 3], &store).encode();
    assert!(PageQuery::decode(&short).is_err());
    bytes.push(0);
    assert!(PageQuery::decode(&bytes).is_err());
    assert!(PageQuery::decode(&bytes[..9]).is_err());
}

#[test]
fn a_sample_is_spread_over_all_pages() {
    let mut store = new_store(1 << 14);
    let many: Vec<(u64, u8)> = (0..1000).map(|page| (page + page / 100 * 50, 1)).collect();
    let runs = fill(&many, &mut store);
    let chosen = sample(&runs, 64);
    let count: u64 = chosen.iter().map(|run| run.pages.pages).sum();
    assert!((60..=64).contains(&count), "{count}");
    assert_eq!(chosen[0].pages.start.0, 0);
    assert!(chosen.last().unwrap().pages.start.0 >= many[980].0);
    assert!(chosen.iter().all(|run| runs.iter().any(|all| {
        run.pages.start >= all.pages.start
            && run.pages.end() <= all.pages.end()
            && run.slot.0 - all.slot.0 == run.pages.start.0 - all.pages.start.0
    })));
    assert_eq!(sample(&runs[..1], 1000), runs[..1]);
    assert_eq!(sample(&[], 64), []);
}

#[test]
fn what_the_receiver_has_is_not_sent_and_lives_as_long_as_the_copy() {
    let (mut worker_store, mut buddy_store) = (new_store(1 << 14), new_store(1 << 14));
    let delta = |runs| Delta {
        base: Epoch(0),
        epoch: Epoch(1),
        runs,
        dropped: Vec::new(),
    };
    let captured = delta(fill(WORKER_PAGES, &mut worker_store));
    let mut own = image(BUDDY_PAGES, &mut buddy_store);
    let query = query_for(captured.runs(), &worker_store);
    let found = query.find_in(&own, &buddy_store);
    let kept_pages = decode_answer(query.pages(), &query.encode_answer(&found));
    let outgoing = captured.outgoing(kept_pages, &worker_store, options());
    assert_eq!(outgoing.header.page_count(), 2);
    let header = || Header::decode(&outgoing.header.encode()).unwrap();
    assert!(Incoming::allocate(header(), Vec::new(), &mut buddy_store).is_err());
    assert!(Incoming::allocate(header(), found[1..].to_vec(), &mut buddy_store).is_err());

    let before = buddy_store.live();
    for is_kept in [false, true] {
        buddy_store.share(found.iter().map(|run| run.extent()));
        let mut incoming = Incoming::allocate(header(), found.clone(), &mut buddy_store).unwrap();
        assert_eq!(buddy_store.live(), before + 2);
        transfer(&outgoing, &worker_store, &mut incoming);
        if !is_kept {
            incoming.cancel(&mut buddy_store);
            assert_eq!(buddy_store.live(), before);
            continue;
        }
        let mut copy = Image::new();
        copy.apply(
            incoming.into_delta(&mut buddy_store).unwrap(),
            &mut buddy_store,
        )
        .unwrap();
        let mut image = Image::new();
        image
            .apply(delta(captured.runs().to_vec()), &mut worker_store)
            .unwrap();
        assert_same_image(&image, &worker_store, &copy, &buddy_store);
        assert_eq!(buddy_store.first_damaged(copy.runs()), None);
        // The buddy's own image is cleared; the replica keeps the shared slots.
        own.clear(&mut buddy_store);
        assert_eq!(buddy_store.live(), copy.page_count());
        buddy_store.alloc(1000).unwrap();
        assert_same_image(&image, &worker_store, &copy, &buddy_store);
        copy.clear(&mut buddy_store);
        assert_eq!(buddy_store.live(), 1000);
    }
}

#[test]
fn a_whole_copy_refers_to_present_pages() {
    let mut store = new_store(1 << 14);
    let (mut copy, mut own) = (
        image(WORKER_PAGES, &mut store),
        image(BUDDY_PAGES, &mut store),
    );
    let (whole, before) = (store.sums(copy.runs()), store.live());
    assert_eq!(copy.share_equal_pages(&own, &mut store), 5);
    assert_eq!(store.live(), before - 5);
    assert_eq!(copy.share_equal_pages(&own, &mut store), 0);
    assert_eq!(
        (store.sums(copy.runs()), store.first_damaged(copy.runs())),
        (whole, None)
    );
    // A process that adopts both images counts the references in the runs of both.
    let references = [copy.runs(), own.runs()].concat();
    store.count_shares(references.iter().map(|run| run.extent()));
    copy.clear(&mut store);
    assert_eq!(store.live(), own.page_count());
    own.clear(&mut store);
    assert_eq!(store.live(), 0);
}
