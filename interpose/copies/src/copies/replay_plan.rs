//! Replay plans: the input of a set-up replay, and its expected result.

use crate::arch::Frame;
use crate::fault::Damage;
use crate::journal::{Inputs, Journal};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::image_delta::Image;
use understudy_image::layout::Layout;
use understudy_image::pages::{PageIndex, PageRun};
use understudy_image::store::PageStore;
use understudy_numbers::Worker;

/// Static pages of a worker: their source and their expected checksums.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct ReplayPlan {
    pub worker: Worker,
    pub source: PageSource,
    /// Checksums of the pages at the end of the phase.
    pub pages: Vec<PageSums>,
}

/// Source of static pages.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub enum PageSource {
    /// Replay of the phase.
    Replay(Box<ReplayedPhase>),
    /// File with the pages ([`crate::disk::StaticFile`]).
    File(PathBuf),
}

/// Recorded set-up phase of a worker.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct ReplayedPhase {
    pub journal: Vec<u8>,
    /// Call at which the phase began: `MPI_Init`, or a cut.
    pub begin: Frame,
    /// Call at the end of the phase: slot, hash of its arguments.
    pub end: (u64, u32),
    /// Duration of the phase.
    pub duration: Duration,
    /// Data that the phase has read from files, once a trial replay has recorded them.
    pub inputs: Inputs,
    /// State at the beginning of the phase; `None` if that is the end of `MPI_Init`.
    pub base: Option<ReplayBase>,
}

/// State of a worker at a cut, relative to the end of the previous phase.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct ReplayBase {
    pub before: Box<ReplayedPhase>,
    /// State outside of pages, as in a checkpoint.
    pub state: Vec<u8>,
    /// Changed pages (sorted).
    pub pages: Vec<PageRun>,
    /// Concatenated, compressed pages ([`understudy_policy::compression`]).
    pub content: Vec<u8>,
}

impl ReplayBase {
    /// Returns the size in bytes, without the previous phase.
    pub fn size(&self) -> usize {
        self.state.len() + self.content.len()
    }
}

impl ReplayedPhase {
    /// Returns the size in bytes of the journals, and of the replay bases between them.
    fn size(&self) -> usize {
        let base = self.base.as_ref();
        self.journal.len() + base.map_or(0, |base| base.size() + base.before.size())
    }

    /// Iterates over this phase and the previous phases.
    fn with_previous(&self) -> impl Iterator<Item = &ReplayedPhase> {
        std::iter::successors(Some(self), |replay| Some(&*replay.base.as_ref()?.before))
    }
}

/// Returns the checksums of an image's pages, except those of the stack that contains `rsp`.
pub fn page_sums(layout: &Layout, image: &Image, store: &PageStore, rsp: u64) -> Vec<PageSums> {
    let stack = layout
        .areas()
        .iter()
        .map(|area| area.range)
        .find(|range| range.contains(rsp));
    let is_stack = |page: PageIndex| stack.is_some_and(|stack| stack.contains(page.addr()));
    let runs = image.runs().iter().filter(|run| !is_stack(run.pages.start));
    runs.map(|run| PageSums {
        first: run.pages.start,
        sums: store.sums(std::slice::from_ref(run)),
    })
    .collect()
}

impl ReplayPlan {
    /// Damages the journal, for tests.
    ///
    /// A second call must not flip the bit back, so a bit of a damaged journal is not changed.
    pub fn damage(&mut self, harm: Damage) {
        let PageSource::Replay(replay) = &mut self.source else {
            return;
        };
        let middle = replay.journal.len() / 2;
        match harm {
            Damage::Bit if Journal::decode(&replay.journal).is_ok() => replay.journal[middle] ^= 4,
            Damage::Bit => {}
            Damage::Half => replay.journal.truncate(middle),
        }
    }

    /// Returns the size in bytes of the journals, and of the replay bases between them.
    pub fn journal_bytes(&self) -> u64 {
        match &self.source {
            PageSource::Replay(replay) => replay.size() as u64,
            PageSource::File(_) => 0,
        }
    }

    /// Returns the size in bytes of the recorded file contents.
    pub fn input_bytes(&self) -> u64 {
        match &self.source {
            PageSource::Replay(replay) => replay
                .with_previous()
                .map(|replay| replay.inputs.size())
                .sum(),
            PageSource::File(_) => 0,
        }
    }

    /// Sets the data that the phase reads from files.
    pub fn set_inputs(&mut self, inputs: Inputs) {
        if let PageSource::Replay(replay) = &mut self.source {
            replay.inputs = inputs;
        }
    }

    /// Returns a changed or removed file that replays read.
    ///
    /// Replays read only files that are too long to be recorded. `None` if none has changed.
    pub fn changed_input(&self) -> Option<&Path> {
        match &self.source {
            PageSource::Replay(replay) => replay
                .with_previous()
                .find_map(|replay| replay.inputs.changed_long_file()),
            PageSource::File(_) => None,
        }
    }

    /// Returns the duration of the phase; zero if the pages come from a file.
    pub fn duration(&self) -> Duration {
        match &self.source {
            PageSource::Replay(replay) => replay.duration,
            PageSource::File(_) => Duration::ZERO,
        }
    }

    /// Returns the number of pages that the plan restores.
    pub fn page_count(&self) -> u64 {
        self.pages.iter().map(|run| run.sums.len() as u64).sum()
    }

    /// True if another plan restores one of these pages (sorted numbers) with equal content.
    pub fn has_equal_page(&self, other: &ReplayPlan, pages: &[u64]) -> bool {
        let among = |(page, _): &(PageIndex, u64)| pages.binary_search(&page.0).is_ok();
        let pages_of = |plan: &'_ ReplayPlan| {
            plan.pages
                .iter()
                .flat_map(PageSums::each)
                .filter(among)
                .collect()
        };
        let (ours, others): (HashSet<_>, HashSet<_>) = (pages_of(self), pages_of(other));
        !ours.is_disjoint(&others)
    }

    /// Removes pages (sorted numbers) from the plan.
    pub fn without_pages(mut self, pages: &[u64]) -> ReplayPlan {
        let is_kept = |page: PageIndex| pages.binary_search(&page.0).is_err();
        let mut kept: Vec<PageSums> = Vec::new();
        for run in &self.pages {
            for (page, sum) in run.each().filter(|&(page, _)| is_kept(page)) {
                absent_pages::push(&mut kept, page, &[sum]);
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
        let plan = ReplayPlan {
            worker: Worker(0),
            source: PageSource::File(PathBuf::new()),
            pages: vec![
                PageSums {
                    first: PageIndex(10),
                    sums: vec![100, 101, 102],
                },
                PageSums {
                    first: PageIndex(20),
                    sums: vec![200],
                },
            ],
        };
        let less = plan.without_pages(&[11, 20]);
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
