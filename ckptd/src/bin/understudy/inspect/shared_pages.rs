//! Pages with equal content in several workers of a checkpoint.
//!
//! Such pages would not have to be stored, or sent, for each of these workers.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use understudy_formats::pages::PAGE_SIZE;
use understudy_numbers::Worker;
use understudy_report::bytes;
use understudy_report::described;
use xxhash_rust::xxh3::xxh3_128;

/// A worker's pages by content.
#[derive(Debug, Default)]
pub struct Sums {
    zeros: u64,
    /// Page number of each nonzero page, and a 128-bit checksum that identifies its content.
    nonzero: Vec<(u64, u128)>,
}

impl Sums {
    /// Adds the page of this number.
    pub fn add(&mut self, number: u64, page: &[u8]) {
        if page.iter().all(|byte| *byte == 0) {
            self.zeros += 1;
        } else {
            self.nonzero.push((number, xxh3_128(page)));
        }
    }
}

/// Pages of one worker, or of all workers together.
#[derive(Debug, Default, Serialize)]
pub struct Shares {
    pages: u64,
    zeros: u64,
    /// Nonzero pages whose content another worker has as well.
    elsewhere: u64,
    /// Pages of `elsewhere` for which the address is equal, too.
    same_place: u64,
}

#[derive(Debug, Serialize)]
struct WorkerShares {
    #[serde(serialize_with = "described")]
    worker: Worker,
    #[serde(flatten)]
    shares: Shares,
}

/// Pages that the workers of a checkpoint have in common.
#[derive(Debug, Serialize)]
pub struct Sharing {
    workers: Vec<WorkerShares>,
    total: Shares,
    /// Number of different nonzero contents over all workers.
    distinct: u64,
}

/// A page of a worker.
///
/// The order puts equal contents, and in them equal numbers, side by side.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WorkerPage {
    /// Checksum of the content.
    sum: u128,
    number: u64,
    /// Index of the worker among those that are compared.
    worker: usize,
}

/// Compares workers; `None` if there are fewer than two.
pub fn compare(workers: &BTreeMap<Worker, &Sums>) -> Option<Sharing> {
    if workers.len() < 2 {
        return None;
    }
    let mut sharing = Sharing {
        workers: workers
            .iter()
            .map(|(worker, sums)| WorkerShares {
                worker: *worker,
                shares: Shares::of(sums),
            })
            .collect(),
        total: Shares::default(),
        distinct: 0,
    };
    let mut pages: Vec<WorkerPage> = Vec::new();
    for (worker, sums) in workers.values().enumerate() {
        pages.extend(sums.nonzero.iter().map(|&(number, sum)| WorkerPage {
            sum,
            number,
            worker,
        }));
    }
    pages.sort_unstable();
    for equal in pages.chunk_by(|one, other| one.sum == other.sum) {
        sharing.distinct += 1;
        if equal.iter().all(|page| page.worker == equal[0].worker) {
            continue;
        }
        for page in equal {
            sharing.workers[page.worker].shares.elsewhere += 1;
        }
        // A worker has each number once, so several pages of one number are of several workers.
        for at_one_address in equal
            .chunk_by(|one, other| one.number == other.number)
            .filter(|pages| pages.len() > 1)
        {
            for page in at_one_address {
                sharing.workers[page.worker].shares.same_place += 1;
            }
        }
    }
    for WorkerShares { shares, .. } in &sharing.workers {
        sharing.total.pages += shares.pages;
        sharing.total.zeros += shares.zeros;
        sharing.total.elsewhere += shares.elsewhere;
        sharing.total.same_place += shares.same_place;
    }
    Some(sharing)
}

impl Shares {
    fn of(sums: &Sums) -> Self {
        Self {
            pages: sums.zeros + sums.nonzero.len() as u64,
            zeros: sums.zeros,
            ..Self::default()
        }
    }

    fn describe(&self, name: &str, out: &mut String) {
        let Self {
            pages,
            zeros,
            elsewhere,
            same_place,
        } = self;
        let share = 100.0 * *elsewhere as f64 / (pages - zeros).max(1) as f64;
        let _ = writeln!(
            out,
            "    {name:<12} {pages:>10} {zeros:>10} {elsewhere:>10} {share:>6.1}% {same_place:>14}"
        );
    }
}

impl Sharing {
    pub fn describe(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "  pages whose content other workers have as well\n    {:<12} {:>10} {:>10} {:>10} \
             {:>7} {:>14}",
            "", "pages", "zero", "elsewhere", "", "in same place"
        );
        for WorkerShares { worker, shares } in &self.workers {
            shares.describe(&format!("worker {worker}"), out);
        }
        self.total.describe("all", out);
        let kept = self.total.pages - self.total.zeros;
        let size = |pages: u64| bytes(pages * PAGE_SIZE as u64);
        let _ = writeln!(
            out,
            "    If each content were stored once: {} instead of {}",
            size(self.distinct),
            size(kept)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(pages: &[(u64, u8)]) -> Sums {
        let mut sums = Sums::default();
        pages
            .iter()
            .for_each(|(number, byte)| sums.add(*number, &[*byte; PAGE_SIZE]));
        sums
    }

    #[test]
    fn only_pages_of_other_workers_count() {
        // All workers have content 5, one worker has 6 twice, and two workers have 7 at different
        // places.
        let (first, second, third) = (
            sums(&[(1, 0), (2, 5), (3, 6), (4, 6), (5, 7)]),
            sums(&[(2, 5), (6, 7), (7, 8)]),
            sums(&[(1, 0), (3, 5)]),
        );
        let found = compare(
            &[
                (Worker(0), &first),
                (Worker(1), &second),
                (Worker(4), &third),
            ]
            .into(),
        )
        .unwrap();
        let counts = |it: &Shares| [it.pages, it.zeros, it.elsewhere, it.same_place];
        let workers: Vec<_> = found.workers.iter().map(|it| counts(&it.shares)).collect();
        assert_eq!(workers, [[5, 1, 2, 1], [3, 0, 2, 1], [2, 1, 1, 0]]);
        assert_eq!((counts(&found.total), found.distinct), ([10, 2, 5, 2], 4));
        assert!(compare(&[(Worker(0), &first)].into()).is_none());
    }
}
