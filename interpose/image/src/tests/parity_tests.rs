//! A group of ranks with changing pages, each of which the others can reconstruct.

#![allow(unsafe_code)]

use super::support::*;
use crate::PAGE_SIZE;
use crate::image_delta::{Delta, Image, SlotRun, lay_out};
use crate::pages::{self, PageIndex, PageRun};
use crate::parity::{
    XorPlan, accumulate, contribution, drop_zero_pages, fold_changes, pages_of_layer,
    parity_changes, zero_image,
};
use crate::store::{PageStore, Slot};
use std::collections::BTreeMap;
use understudy_numbers::Epoch;

/// Rank of the group: its image, and the parity that it stores.
#[derive(Default)]
struct Member {
    own: Image,
    parity: Image,
}

/// Members of a group, in one store.
struct Group {
    store: PageStore,
    members: Vec<Member>,
}

fn page_list(pages: impl IntoIterator<Item = u64>) -> Vec<PageRun> {
    pages::normalise(
        pages
            .into_iter()
            .map(|page| PageRun::between(page, page + 1))
            .collect(),
    )
}

fn content<'a>(image: &'a Image, store: &'a PageStore) -> BTreeMap<u64, &'a [u8]> {
    let mut all = BTreeMap::new();
    for (PageIndex(first), pages, at) in image.extents(store) {
        for index in 0..pages {
            // SAFETY: an image refers to allocated slots, which are not written while the store is
            // borrowed.
            let page = unsafe {
                std::slice::from_raw_parts(at.add(index as usize * PAGE_SIZE), PAGE_SIZE)
            };
            all.insert(first + index, page);
        }
    }
    all
}

impl Group {
    fn new(size: usize) -> Group {
        Group {
            store: new_store(1 << 16),
            members: (0..size).map(|_| Member::default()).collect(),
        }
    }

    fn layers(&self) -> usize {
        self.members.len() - 1
    }

    fn parity_member(&self, member: usize, layer: usize) -> usize {
        (member + layer + 1) % self.members.len()
    }

    /// Creates a random delta of a member: pages that are new, changed, or dropped.
    fn delta(&mut self, member: usize, random: &mut Random) -> Delta {
        let image = &self.members[member].own;
        let known: Vec<u64> = image
            .pages()
            .iter()
            .flat_map(|run| run.start.0..run.end())
            .collect();
        // Most page numbers are common to several members.
        let changed = (0..random.below(60)).map(|_| 1000 + member as u64 + random.below(150));
        let changed = page_list(changed.collect::<Vec<_>>());
        let dropped = known.into_iter().filter(|_| random.below(6) == 0);
        let dropped = pages::subtract(&page_list(dropped.collect::<Vec<_>>()), &changed);
        let extents = self.store.alloc(pages::total(&changed)).unwrap();
        let runs = lay_out(&changed, &extents);
        for slot in runs
            .iter()
            .flat_map(|run| run.slot.0..run.slot.0 + run.pages.pages)
        {
            let at = self.store.ptr(Slot(slot)).cast::<u64>();
            // Pages of zeros are stored like other pages.
            let value = random.below(4) * (1 + random.below(u64::from(u32::MAX)));
            (0..PAGE_SIZE / 8).for_each(|word| {
                // SAFETY: the slot has just been allocated, and `word` lies in its page.
                unsafe { at.add(word).write(value.wrapping_mul(word as u64 | 1)) };
            });
        }
        Delta {
            base: image.epoch(),
            epoch: Epoch(image.epoch().0 + 1),
            runs,
            dropped,
        }
    }

    /// Advances all members by one epoch.
    fn step(&mut self, random: &mut Random) {
        let (count, layers) = (self.members.len(), self.layers());
        let mut received: Vec<Vec<Vec<SlotRun>>> = vec![Vec::new(); count];
        let mut deltas = Vec::new();
        for member in 0..count {
            let delta = self.delta(member, random);
            let mut combine = XorPlan::default();
            let made = parity_changes(
                &delta,
                &self.members[member].own,
                layers,
                &mut combine,
                &mut self.store,
            )
            .unwrap();
            combine.execute();
            for (layer, changes) in made.into_iter().enumerate() {
                received[self.parity_member(member, layer)].push(changes.runs);
            }
            deltas.push(delta);
        }
        for ((member, received), delta) in self.members.iter_mut().zip(received).zip(deltas) {
            let (mut combine, epoch) = (XorPlan::default(), delta.epoch);
            let mut folded = fold_changes(
                &member.parity,
                &received,
                epoch,
                &mut combine,
                &mut self.store,
            )
            .unwrap();
            let is_nonzero = combine.execute();
            drop_zero_pages(&mut folded, &is_nonzero, &mut self.store);
            member.parity.apply(folded, &mut self.store).unwrap();
            member.own.apply(delta, &mut self.store).unwrap();
            let used = received.into_iter().flatten();
            self.store.release(used.map(SlotRun::extent));
        }
    }

    /// Asserts that a member's pages can be computed from the contributions of the others.
    fn assert_can_lose(&mut self, lost: usize) {
        let (count, layers) = (self.members.len(), self.layers());
        let (epoch, pages) = (
            self.members[lost].own.epoch(),
            self.members[lost].own.pages(),
        );
        let mut copy = zero_image(epoch, &pages, &mut self.store).unwrap();
        for layer in 0..layers {
            let member = self.parity_member(lost, layer);
            let common = |own_layer| {
                (0..layers).find(|&lost_layer| {
                    self.parity_member(lost, lost_layer) == self.parity_member(member, own_layer)
                })
            };
            let common: Vec<Option<usize>> = (0..layers).map(common).collect();
            let survivor = &self.members[member];
            let mut piece = contribution(&survivor.own, &survivor.parity, layer, &common);
            piece.sort_unstable_by_key(|run| run.pages);
            accumulate(copy.runs(), &piece, &self.store);
        }
        let wanted = content(&self.members[lost].own, &self.store);
        assert!(
            content(&copy, &self.store) == wanted,
            "member {lost} of {count} at {:?}",
            epoch
        );
        copy.clear(&mut self.store);
    }

    /// Asserts that a member's parity can be computed from the pages of the others.
    fn assert_parity_can_be_made(&mut self, lost: usize) {
        let (count, layers) = (self.members.len(), self.layers());
        let from = |layer: usize| (lost + count - layer - 1) % count;
        let all: Vec<_> = (0..layers)
            .map(|layer| pages_of_layer(&self.members[from(layer)].own, layer, layers))
            .collect();
        let mut combine = XorPlan::default();
        let mut made =
            fold_changes(&Image::new(), &all, Epoch(1), &mut combine, &mut self.store).unwrap();
        let is_nonzero = combine.execute();
        drop_zero_pages(&mut made, &is_nonzero, &mut self.store);
        let mut parity = Image::new();
        parity.apply(made, &mut self.store).unwrap();
        let kept = &self.members[lost].parity;
        assert!(
            content(&parity, &self.store) == content(kept, &self.store),
            "member {lost} of {count}"
        );
        parity.clear(&mut self.store);
    }
}

#[test]
fn any_member_can_be_rebuilt_from_the_others() {
    let mut random = Random::seeded("parity");
    for size in 2..6 {
        let mut group = Group::new(size);
        for _ in 0..25 {
            group.step(&mut random);
            for lost in 0..size {
                group.assert_can_lose(lost);
                group.assert_parity_can_be_made(lost);
            }
            let images = group
                .members
                .iter()
                .flat_map(|member| [&member.own, &member.parity]);
            let live: u64 = images.map(Image::page_count).sum();
            assert_eq!(group.store.live(), live, "no other slot is in use");
        }
    }
}
