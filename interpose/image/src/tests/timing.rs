//! Measurements without assertions: `cargo test --release -- --ignored --nocapture timing`.

#![allow(unsafe_code)]

use super::support::*;
use crate::PAGE_SIZE;
use crate::capture::{CaptureOptions, capture};
use crate::pages::AddrRange;
use crate::prefault::Prefault;
use crate::restore::load_all;
use crate::store::ArenaFiles;
use std::time::{Duration, Instant};
use understudy_formats::pages::Tracking;
use understudy_numbers::Epoch;

fn timed(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

fn micros(mut all: Vec<Duration>) -> f64 {
    all.sort_unstable();
    all[all.len() / 2].as_secs_f64() * 1e6
}

/// Copies the pages one by one into memory touched before, as a reference.
fn plain_copy(user: &TestProgram, dirty: &[u64], into: &mut [u8]) -> Duration {
    timed(|| {
        for (page, slot) in dirty.iter().zip(into.chunks_exact_mut(PAGE_SIZE)) {
            let from = user.addr(*page) as *const u8;
            // SAFETY: mapped pages of the test, and a separate vector.
            unsafe { slot.as_mut_ptr().copy_from_nonoverlapping(from, PAGE_SIZE) };
        }
    })
}

fn measure(choice: Tracking, megabytes: u64, percent: u64, outlives: bool) {
    let pages = megabytes << 8;
    let user = TestProgram::new();
    user.map(0, pages, RW);
    user.fill(0, pages, 1);
    let mut rank = TestRank::new(choice);
    if outlives {
        rank.store = store_in(ArenaFiles::new().unwrap(), 1 << 20, &[]);
    }
    let first = timed(|| drop(rank.commit(&user)));
    let dirty: Vec<u64> = (0..pages).filter(|page| page % 100 < percent).collect();
    let mut flat = vec![1_u8; dirty.len() * PAGE_SIZE];
    let (mut copies, mut captures, mut backs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..9_u8 {
        let dirty_all = || dirty.iter().for_each(|&page| user.write(page, 100 + round));
        dirty_all();
        copies.push(plain_copy(&user, &dirty, &mut flat));
        Prefault::start(rank.store.take_untouched(dirty.len() as u64)).wait();
        let layout = user.layout();
        let epoch = Epoch(rank.image.epoch().0 + 1);
        let mut delta = None;
        captures.push(timed(|| {
            let TestRank {
                tracker,
                store,
                image,
                ..
            } = &mut rank;
            delta = Some(
                capture(
                    tracker,
                    &layout,
                    &[],
                    CaptureOptions::default(),
                    epoch,
                    store,
                    image,
                )
                .unwrap()
                .delta,
            );
        }));
        let delta = delta.unwrap();
        rank.store.seal(delta.runs());
        rank.image.apply(delta, &mut rank.store).unwrap();
        user.write(dirty[0], 0);
        dirty.iter().for_each(|&page| user.write(page, 200 + round));
        backs.push(timed(|| {
            rank.rollback(&user);
        }));
    }
    let (start, bytes) = (
        user.addr(0) as *mut libc::c_void,
        pages as usize * PAGE_SIZE,
    );
    let loads = (0..5).map(|_| {
        // SAFETY: pages of the test's own range, which are loaded again below.
        let failed = unsafe { libc::madvise(start, bytes, libc::MADV_DONTNEED) };
        assert_eq!(failed, 0);
        timed(|| {
            let TestRank {
                tracker,
                store,
                image,
                saved,
                ..
            } = &mut rank;
            load_all(tracker, saved, image, store, None, &|_| false).unwrap();
        })
    });
    let load = micros(loads.collect());
    let (copy, capture, back) = (micros(copies), micros(captures), micros(backs));
    println!(
        "{choice:?} {megabytes} MiB {percent:3} %, outlives its process: {outlives}: first \
         {first:?}, copy {copy:8.0} us, capture {capture:8.0} us ({:.2}x), rollback {back:8.0} us \
         ({:.2}x), load {load:8.0} us",
        capture / copy,
        back / copy
    );
}

#[test]
#[ignore = "prints figures"]
fn timing() {
    with_each(|choice| {
        for megabytes in [16, 128] {
            for percent in [1, 10, 100] {
                measure(choice, megabytes, percent, false);
                measure(choice, megabytes, percent, true);
            }
        }
    });
}

#[test]
#[ignore = "prints figures"]
fn timing_of_an_empty_reservation() {
    with_each(|choice| {
        let user = TestProgram::new();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let pages = (60 << 30) / PAGE;
        user.map_with(0, pages, NONE, flags, None);
        let mut rank = TestRank::new(choice);
        rank.saved = user.layout();
        let whole = AddrRange::new(user.addr(0), user.addr(pages));
        for round in 0..3 {
            let time = timed(|| drop(rank.commit(&user)));
            println!(
                "{choice:?} empty {} GiB, capture {round}: {time:?}",
                whole.len() >> 30
            );
        }
    });
}
