//! What is needed to replay a phase, and what the replay must give.

use crate::arch::Frame;
use crate::fault::Harm;
use crate::journal::{Inputs, Journal};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use understudy_image::absent::{self, Sums};
use understudy_image::epoch::Image;
use understudy_image::layout::Layout;
use understudy_image::runs::{PageIndex, PageRun};
use understudy_image::store::PageStore;
use understudy_numbers::Worker;

/// How a worker's static data are had.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct Script {
    pub worker: Worker,
    pub way: Way,
    /// Pages as they are at the end of the phase.
    pub pages: Vec<Sums>,
}

/// A way to have pages.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub enum Way {
    /// The phase is replayed.
    Replay(Box<Replay>),
    /// They are read from this file ([`crate::disk::StaticFile`]).
    File(PathBuf),
}

/// A worker's initialisation phase.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct Replay {
    pub journal: Vec<u8>,
    /// The call that it began with: that of `MPI_Init`, or a cut.
    pub begin: Frame,
    /// The call at the end: slot, hash of its arguments.
    pub end: (u64, u32),
    /// How long the phase took.
    pub took: Duration,
    /// What it read of files, once a rehearsal has recorded that.
    pub inputs: Inputs,
    /// What the worker was when the phase began, if that was not the end of `MPI_Init`.
    pub base: Option<Base>,
}

/// A worker at a cut, from what it was at the end of the phase before.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct Base {
    pub before: Box<Replay>,
    /// Everything but pages, as in a checkpoint.
    pub state: Vec<u8>,
    /// Pages (sorted) that are not as they were.
    pub pages: Vec<PageRun>,
    /// One after the other, packed ([`understudy_policy::packed`]).
    pub content: Vec<u8>,
}

impl Base {
    /// Bytes of it, without the phase before.
    pub fn size(&self) -> usize {
        self.state.len() + self.content.len()
    }
}

impl Replay {
    /// Bytes of the journals, and of what lies between them.
    fn size(&self) -> usize {
        let base = self.base.as_ref();
        self.journal.len() + base.map_or(0, |base| base.size() + base.before.size())
    }

    /// This phase, and those before it.
    fn all(&self) -> impl Iterator<Item = &Replay> {
        std::iter::successors(Some(self), |replay| Some(&*replay.base.as_ref()?.before))
    }
}

/// The sums of an image's pages, without those of the stack that `rsp` is in.
pub fn sums_of(layout: &Layout, image: &Image, store: &PageStore, rsp: u64) -> Vec<Sums> {
    let stack = layout
        .areas()
        .iter()
        .map(|area| area.range)
        .find(|range| range.contains(rsp));
    let is_stack = |page: PageIndex| stack.is_some_and(|stack| stack.contains(page.addr()));
    let runs = image.runs().iter().filter(|run| !is_stack(run.pages.start));
    runs.map(|run| Sums {
        first: run.pages.start,
        sums: store.sums(std::slice::from_ref(run)),
    })
    .collect()
}

impl Script {
    /// For tests: changes the journal.
    pub fn damage(&mut self, harm: Harm) {
        let Way::Replay(replay) = &mut self.way else {
            return;
        };
        let middle = replay.journal.len() / 2;
        match harm {
            Harm::Bit if Journal::decode(&replay.journal).is_ok() => replay.journal[middle] ^= 4,
            Harm::Bit => {}
            Harm::Half => replay.journal.truncate(middle),
        }
    }

    /// Bytes of its journals.
    pub fn journal(&self) -> u64 {
        match &self.way {
            Way::Replay(replay) => replay.size() as u64,
            Way::File(_) => 0,
        }
    }

    /// Bytes of what is recorded of files.
    pub fn inputs(&self) -> u64 {
        match &self.way {
            Way::Replay(replay) => replay.all().map(|replay| replay.inputs.size()).sum(),
            Way::File(_) => 0,
        }
    }

    /// What the phase reads of files.
    pub fn set_inputs(&mut self, inputs: Inputs) {
        if let Way::Replay(replay) = &mut self.way {
            replay.inputs = inputs;
        }
    }

    /// A file that a replay would read and that is not what it was.
    pub fn changed_input(&self) -> Option<&Path> {
        match &self.way {
            Way::Replay(replay) => replay.all().find_map(|replay| replay.inputs.changed()),
            Way::File(_) => None,
        }
    }

    /// How long the phase took, if that is known.
    pub fn took(&self) -> Duration {
        match &self.way {
            Way::Replay(replay) => replay.took,
            Way::File(_) => Duration::ZERO,
        }
    }

    /// How many pages it tells of.
    pub fn page_count(&self) -> u64 {
        self.pages.iter().map(|run| run.sums.len() as u64).sum()
    }

    /// Whether these pages (sorted numbers) are among those that another script makes as this one
    /// does.
    pub fn shares(&self, other: &Script, pages: &[u64]) -> bool {
        let among = |(page, _): &(PageIndex, u64)| pages.binary_search(&page.0).is_ok();
        let of = |script: &'_ Script| {
            script
                .pages
                .iter()
                .flat_map(Sums::each)
                .filter(among)
                .collect()
        };
        let (ours, others): (HashSet<_>, HashSet<_>) = (of(self), of(other));
        !ours.is_disjoint(&others)
    }

    /// Leaves pages out (sorted numbers).
    pub fn without(mut self, pages: &[u64]) -> Script {
        let is_kept = |page: PageIndex| pages.binary_search(&page.0).is_err();
        let mut kept: Vec<Sums> = Vec::new();
        for run in &self.pages {
            for (page, sum) in run.each().filter(|&(page, _)| is_kept(page)) {
                absent::push(&mut kept, page, &[sum]);
            }
        }
        self.pages = kept;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_differ_are_left_out() {
        let script = Script {
            worker: Worker(0),
            way: Way::File(PathBuf::new()),
            pages: vec![
                Sums {
                    first: PageIndex(10),
                    sums: vec![100, 101, 102],
                },
                Sums {
                    first: PageIndex(20),
                    sums: vec![200],
                },
            ],
        };
        let less = script.without(&[11, 20]);
        let expected: Vec<(u64, Vec<u64>)> = vec![(10, vec![100]), (12, vec![102])];
        let found: Vec<_> = less
            .pages
            .iter()
            .map(|run| (run.first.0, run.sums.clone()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(less.page_count(), 2);
    }
}
