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

fn wanted(of: &[SlotRun], store: &PageStore) -> PageQuery {
    PageQuery::new(of, store.identities(of), store)
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
/// Pages 10, 12, 13, 20 and 30 are equal.
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
    let (mut theirs, mut mine) = (new_store(1 << 14), new_store(1 << 14));
    let copy = fill(WORKER_PAGES, &mut theirs);
    let own = image(BUDDY_PAGES, &mut mine);
    let wanted = PageQuery::decode(&wanted(&copy, &theirs).encode()).unwrap();
    let held = wanted.find_in(&own, &mine);
    let same = pages(&[(10, 11), (12, 14), (20, 21), (30, 31)]);
    assert_eq!(
        decode_answer(wanted.pages(), &wanted.encode_answer(&held)),
        same
    );
    assert_eq!(held, own.slots_of(&same));
    // A page that was damaged after the capture is not equal, although its checksum is.
    let damaged = own.slots_of(&pages(&[(12, 13)]))[0].slot;
    // SAFETY: an allocated slot.
    unsafe { *mine.ptr(damaged) ^= 1 };
    let held = wanted.find_in(&own, &mine);
    assert_eq!(
        decode_answer(wanted.pages(), &wanted.encode_answer(&held)),
        pages(&[(10, 11), (13, 14), (20, 21), (30, 31)])
    );
    let nothing = wanted.find_in(&Image::new(), &mine);
    assert_eq!(
        decode_answer(wanted.pages(), &wanted.encode_answer(&nothing)),
        []
    );
}

#[test]
fn a_question_that_does_not_add_up_is_refused() {
    let mut store = new_store(1 << 14);
    let runs = fill(WORKER_PAGES, &mut store);
    let mut bytes = wanted(&runs, &store).encode();
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
    let (mut theirs, mut mine) = (new_store(1 << 14), new_store(1 << 14));
    let delta = |runs| Delta {
        base: Epoch(0),
        epoch: Epoch(1),
        runs,
        dropped: Vec::new(),
    };
    let captured = delta(fill(WORKER_PAGES, &mut theirs));
    let mut own = image(BUDDY_PAGES, &mut mine);
    let wanted = wanted(captured.runs(), &theirs);
    let held = wanted.find_in(&own, &mine);
    let yours = decode_answer(wanted.pages(), &wanted.encode_answer(&held));
    let outgoing = captured.outgoing(yours, &theirs, options());
    assert_eq!(outgoing.header.page_count(), 2);
    let header = || Header::decode(&outgoing.header.encode()).unwrap();
    assert!(Incoming::allocate(header(), Vec::new(), &mut mine).is_err());
    assert!(Incoming::allocate(header(), held[1..].to_vec(), &mut mine).is_err());

    let before = mine.live();
    for is_kept in [false, true] {
        mine.share(held.iter().map(|run| run.extent()));
        let mut incoming = Incoming::allocate(header(), held.clone(), &mut mine).unwrap();
        assert_eq!(mine.live(), before + 2);
        transfer(&outgoing, &theirs, &mut incoming);
        if !is_kept {
            incoming.cancel(&mut mine);
            assert_eq!(mine.live(), before);
            continue;
        }
        let mut copy = Image::new();
        copy.apply(incoming.into_delta(&mut mine).unwrap(), &mut mine)
            .unwrap();
        let mut image = Image::new();
        image
            .apply(delta(captured.runs().to_vec()), &mut theirs)
            .unwrap();
        assert_same_image(&image, &theirs, &copy, &mine);
        assert_eq!(mine.first_damaged(copy.runs()), None);
        // The own image is cleared; the copy keeps the shared slots.
        own.clear(&mut mine);
        assert_eq!(mine.live(), copy.page_count());
        mine.alloc(1000).unwrap();
        assert_same_image(&image, &theirs, &copy, &mine);
        copy.clear(&mut mine);
        assert_eq!(mine.live(), 1000);
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
