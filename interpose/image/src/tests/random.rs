//! Long random sequences of all operations of a program on its memory.

use super::support::*;
use super::wire_tests::{assert_same_image, send_delta};
use crate::image_delta::Image;
use crate::pages::PageRun;
use understudy_formats::pages::Tracking;

const PAGES: u64 = 600;

struct World<'a> {
    user: TestProgram,
    file: &'a TempFile,
    /// Access rights per page; `None` if the page is not mapped.
    pages: Vec<Option<i32>>,
    random: Random,
}

impl World<'_> {
    fn span(&mut self) -> (u64, u64) {
        let first = self.random.below(PAGES);
        let longest = if self.random.below(4) == 0 { 200 } else { 12 };
        (first, 1 + self.random.below(longest).min(PAGES - first - 1))
    }

    fn set(&mut self, first: u64, n: u64, state: Option<i32>) {
        self.pages[first as usize..(first + n) as usize].fill(state);
    }

    fn all_mapped(&self, first: u64, n: u64) -> bool {
        let span = first as usize..(first + n) as usize;
        self.pages[span].iter().all(Option::is_some)
    }

    fn change(&mut self) {
        let (first, n) = self.span();
        match self.random.below(12) {
            0..=4 => {
                let value = self.random.below(256) as u8;
                for page in first..first + n {
                    if self.pages[page as usize] == Some(RW) {
                        self.user.write(page, value ^ page as u8);
                    }
                }
            }
            5 if self.all_mapped(first, n) => {
                assert!(self.user.advise(first, n, libc::MADV_DONTNEED));
            }
            6 => {
                self.user.unmap(first, n);
                self.set(first, n, None);
            }
            7 => {
                self.user.map(first, n, RW);
                self.set(first, n, Some(RW));
            }
            8 => {
                let file = self.file.open();
                self.user
                    .map_with(first, n, RW, libc::MAP_PRIVATE, Some(&file));
                self.set(first, n, Some(RW));
            }
            9 if self.all_mapped(first, n) => {
                let prot = [NONE, R, RW, RW][self.random.below(4) as usize];
                self.user.protect(first, n, prot);
                self.set(first, n, Some(prot));
            }
            10 => {
                for page in first..first + n {
                    if self.pages[page as usize].is_some_and(|prot| prot != NONE) {
                        self.user.read(page);
                    }
                }
            }
            _ => {
                let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                self.user.map_with(first, n, RW, shared, None);
                self.set(first, n, Some(RW));
            }
        }
    }
}

fn run(choice: Tracking, rounds: u64) {
    let file = TempFile::new("random", PAGES, 5);
    let mut world = World {
        user: TestProgram::new(),
        file: &file,
        pages: vec![None; PAGES as usize],
        random: Random::seeded(&format!("{choice:?}")),
    };
    let mut rank = TestRank::new(choice);
    let (mut buddy, mut buddy_store) = (Image::new(), new_store(1 << 20));
    let mut want = world.user.snapshot();
    let mut model = world.pages.clone();
    for round in 0..rounds {
        for _ in 0..world.random.below(12) {
            world.change();
        }
        match world.random.below(5) {
            0 | 1 => {
                rank.rollback(&world.user);
                world
                    .user
                    .snapshot()
                    .assert_same(&want, &format!("round {round}"));
                world.pages.clone_from(&model);
            }
            2 => {
                let saved = rank.saved.clone();
                let first = world.random.below(PAGES);
                let end = first + world.random.below(PAGES - first + 1);
                rank.omitted = vec![PageRun::between(
                    world.user.page(first),
                    world.user.page(end),
                )];
                let lost = rank.capture(&world.user);
                rank.tracker.abandon(lost, &mut rank.store);
                rank.omitted.clear();
                rank.saved = saved;
            }
            _ => {
                let delta = rank.capture(&world.user);
                let copy = send_delta(&delta, &rank.store, &mut buddy_store);
                rank.image.apply(delta, &mut rank.store).unwrap();
                buddy.apply(copy, &mut buddy_store).unwrap();
                assert_same_image(&rank.image, &rank.store, &buddy, &buddy_store);
                want = world.user.snapshot();
                model.clone_from(&world.pages);
            }
        }
    }
}

#[test]
fn random_changes_are_rolled_back_exactly() {
    with_each(|choice| run(choice, 400));
}
