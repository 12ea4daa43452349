//! Transfers to a buddy and to a spare, through memory instead of MPI.

#![allow(unsafe_code)]

use super::support::*;
use crate::PAGE_SIZE;
use crate::image_delta::{Delta, Image};
use crate::store::PageStore;
use crate::wire::{Header, Incoming, Outgoing, SendOptions};
use understudy_formats::pages::Tracking;

pub fn options() -> SendOptions {
    SendOptions {
        chunk_bytes: 8 * PAGE_SIZE,
    }
}

pub fn transfer(from: &Outgoing, store: &PageStore, into: &mut Incoming) {
    into.sums().copy_from_slice(&store.sums(&from.runs));
    assert_eq!(from.chunks.len(), into.chunks().len());
    for (from, into) in from.chunks.iter().zip(into.chunks()) {
        assert_eq!(from.len, into.len);
        // SAFETY: both chunks have this length, in allocated slots of two different stores.
        unsafe { into.ptr.copy_from_nonoverlapping(from.ptr, from.len) };
    }
}

pub fn send_delta(delta: &Delta, from: &PageStore, to: &mut PageStore) -> Delta {
    let outgoing = delta.outgoing(Vec::new(), from, options());
    let header = Header::decode(&outgoing.header.encode()).unwrap();
    let mut incoming = Incoming::allocate(header, Vec::new(), to).unwrap();
    transfer(&outgoing, from, &mut incoming);
    incoming.into_delta(to).unwrap()
}

pub fn send_image(image: &Image, from: &PageStore, to: &mut PageStore) -> Image {
    let outgoing = image.outgoing(from, options());
    let header = Header::decode(&outgoing.header.encode()).unwrap();
    let mut incoming = Incoming::allocate(header, Vec::new(), to).unwrap();
    transfer(&outgoing, from, &mut incoming);
    incoming.into_image(to).unwrap()
}

pub fn assert_same_image(a: &Image, from: &PageStore, b: &Image, to: &PageStore) {
    assert_eq!((a.epoch(), a.pages()), (b.epoch(), b.pages()));
    let bytes = |image: &Image, store: &PageStore| -> Vec<u8> {
        let mut all = Vec::new();
        for (_, pages, at) in image.extents(store) {
            // SAFETY: an image refers to allocated slots, which are not written while the store is
            // borrowed.
            all.extend_from_slice(unsafe {
                std::slice::from_raw_parts(at, pages as usize * PAGE_SIZE)
            });
        }
        all
    };
    assert!(bytes(a, from) == bytes(b, to), "contents differ");
}

#[test]
fn a_receiver_with_fragments_gets_the_same_image() {
    let user = TestProgram::new();
    user.map(0, 64, RW);
    user.fill(0, 64, 1);
    let mut rank = TestRank::new(Tracking::Compare);
    let mut buddy_store = new_store(16384);
    let full = buddy_store.alloc(16384).unwrap()[0];
    for first in (0..full.len).step_by(40) {
        let first = crate::store::Slot(first);
        buddy_store.release([crate::store::Extent { first, len: 10 }]);
    }
    let mut buddy = Image::new();
    for epoch in 0..6 {
        user.fill(epoch * 9, 10, 50 + epoch as u8);
        let delta = rank.capture(&user);
        let copy = send_delta(&delta, &rank.store, &mut buddy_store);
        rank.image.apply(delta, &mut rank.store).unwrap();
        buddy.apply(copy, &mut buddy_store).unwrap();
        assert_same_image(&rank.image, &rank.store, &buddy, &buddy_store);
    }
    let mut spare_store = new_store(1 << 16);
    let spare = send_image(&buddy, &buddy_store, &mut spare_store);
    assert_same_image(&buddy, &buddy_store, &spare, &spare_store);
    assert_eq!(spare_store.live(), spare.page_count());
}

#[test]
fn damage_and_nonsense_are_refused() {
    let user = TestProgram::new();
    user.map(0, 16, RW);
    user.fill(0, 16, 1);
    let mut rank = TestRank::new(Tracking::Compare);
    let delta = rank.capture(&user);
    let outgoing = delta.outgoing(Vec::new(), &rank.store, options());
    let mut to = new_store(1 << 16);

    let mut incoming = Incoming::allocate(outgoing.header.clone(), Vec::new(), &mut to).unwrap();
    transfer(&outgoing, &rank.store, &mut incoming);
    // SAFETY: a byte of an allocated slot, to which no reference exists.
    unsafe { *incoming.chunks()[1].ptr ^= 1 };
    let damaged = incoming.into_delta(&mut to).unwrap();
    let mut pages = outgoing
        .header
        .runs
        .iter()
        .flat_map(|run| run.start.0..run.end());
    let first_of_second = pages.nth(outgoing.header.chunks[0] as usize);
    assert_eq!(
        to.first_damaged(damaged.runs()).map(|page| page.0),
        first_of_second
    );
    damaged.free(&mut to);

    let mut incoming = Incoming::allocate(outgoing.header.clone(), Vec::new(), &mut to).unwrap();
    transfer(&outgoing, &rank.store, &mut incoming);
    assert!(incoming.into_image(&mut to).is_err());

    let mut header = outgoing.header.clone();
    header.chunks.pop();
    assert!(Header::decode(&header.encode()).is_err());
    let mut header = outgoing.header.clone();
    header.runs.push(header.runs[0]);
    assert!(Incoming::allocate(header, Vec::new(), &mut to).is_err());
    let bytes = outgoing.header.encode();
    assert!(Header::decode(&bytes[..bytes.len() - 1]).is_err());
    assert_eq!(to.live(), 0, "refused transfers use no slots");

    let copy = send_delta(&delta, &rank.store, &mut to);
    let mut image = Image::new();
    rank.image.apply(delta, &mut rank.store).unwrap();
    image.apply(copy, &mut to).unwrap();
    let stale = rank.capture(&user);
    rank.image.clear(&mut rank.store);
    let (why, stale) = rank.image.apply(stale, &mut rank.store).unwrap_err();
    assert_ne!(why.base, why.image);
    rank.tracker.abandon(stale, &mut rank.store);
}
