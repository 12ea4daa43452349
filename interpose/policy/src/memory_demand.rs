//! Memory demand of a checkpoint, compared with the available memory of every node.

use crate::redundancy::Redundancy;
use std::collections::BTreeMap;
use understudy_formats::budget::MemoryBudget;
use understudy_formats::cgroup::MemoryLimit;
use understudy_numbers::Worker;

/// Demand and available memory of a worker for the next checkpoint, in pages.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct MemoryClaim {
    /// Maximum number of pages that the worker captures.
    pub captured: u64,
    /// Number of pages that are free under the limit.
    pub free: u64,
    /// Inode of the control group with the limit; 0 for the node.
    pub owner: u64,
}

/// Lack of memory for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShortage {
    /// First worker under the limit.
    pub reporter: Worker,
    /// Number of pages that the checkpoint needs under the limit.
    pub needed: u64,
    /// Number of pages that are left under the limit.
    pub free: u64,
}

impl MemoryClaim {
    /// Claim of a worker that captures nothing and has no limit.
    pub const NONE: MemoryClaim = MemoryClaim {
        captured: 0,
        free: u64::MAX,
        owner: 0,
    };

    /// Creates the claim of a worker that captures `captured` pages of `page_size` bytes.
    ///
    /// `reserve` bytes are left to the program.
    pub fn of(captured: u64, budget: &MemoryBudget, reserve: u64, page_size: u64) -> MemoryClaim {
        let owner = budget.limit.as_ref().map_or(0, MemoryLimit::identity);
        MemoryClaim {
            captured,
            free: budget.free.saturating_sub(reserve) / page_size,
            owner,
        }
    }
}

impl MemoryClaim {
    /// Returns the number of pages that every worker of a node may capture.
    ///
    /// The memory of this claim is sufficient if no worker captures more. `workers` are those of
    /// the node.
    pub fn pages_for_each(
        &self,
        redundancy: &Redundancy,
        workers: impl Iterator<Item = Worker>,
    ) -> u64 {
        match self.free {
            u64::MAX => u64::MAX,
            free => {
                let images: u64 = workers.map(|worker| images(redundancy, worker)).sum();
                free / images.max(1)
            }
        }
    }
}

/// Returns an upper bound of the memory that a checkpoint needs in a worker's process.
///
/// The unit is the number of pages of the worker that captures most.
fn images(redundancy: &Redundancy, worker: Worker) -> u64 {
    match redundancy.is_parity() {
        false => 1 + redundancy.layers(worker) as u64,
        true => 4,
    }
}

impl Default for MemoryClaim {
    fn default() -> MemoryClaim {
        MemoryClaim::NONE
    }
}

/// Returns the first lack of memory for the next checkpoint; all workers get equal results.
///
/// `node_of` returns the node of a worker.
pub fn shortage(
    redundancy: &Redundancy,
    node_of: impl Fn(Worker) -> u64,
    claims: &[MemoryClaim],
) -> Option<MemoryShortage> {
    let mut owners: BTreeMap<(u64, u64), MemoryShortage> = BTreeMap::new();
    for worker in Worker::all(claims.len() as u32) {
        let claim = claims[worker.index()];
        let owner = owners.entry((node_of(worker), claim.owner));
        let all = owner.or_insert(MemoryShortage {
            reporter: worker,
            needed: 0,
            free: u64::MAX,
        });
        all.needed += needed(redundancy, worker, claims);
        all.free = all.free.min(claim.free);
    }
    let is_short = |all: &MemoryShortage| all.needed > all.free;
    owners
        .into_values()
        .filter(is_short)
        .min_by_key(|all| all.reporter)
}

/// Returns the number of pages that the checkpoint needs in this worker's process.
fn needed(redundancy: &Redundancy, worker: Worker, claims: &[MemoryClaim]) -> u64 {
    let captured = |worker: Worker| claims[worker.index()].captured;
    let own = captured(worker);
    let stored: u64 = redundancy.owners_at(worker).map(captured).sum();
    match redundancy.is_parity() {
        false => own + stored,
        // With parity: changes to send, received changes, and the resulting parity.
        true => 2 * own + 2 * stored / redundancy.layers(worker).max(1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use understudy_settings::Scheme;

    fn claims(free: u64, owner: u64) -> Vec<MemoryClaim> {
        let claim = |captured| MemoryClaim {
            captured,
            free,
            owner,
        };
        [100, 200, 300, 400].map(claim).to_vec()
    }

    fn place(scheme: Scheme) -> Redundancy {
        Redundancy::place(&[0, 0, 1, 1], 2, scheme)
    }

    #[test]
    fn memory_is_sufficient_if_no_worker_captures_more_than_the_pages_for_each() {
        let mut dice = Dice(1);
        let mut ample = 0;
        for _ in 0..20_000 {
            let scheme = match dice.below(3) {
                0 => Scheme::Parity(2 + dice.below(2) as u32),
                copies => Scheme::Copies(copies as u32),
            };
            let nodes: Vec<u32> = (0..6).map(|_| dice.below(3) as u32).collect();
            let redundancy = Redundancy::place(&nodes, 1, scheme);
            let node_of = |worker: Worker| u64::from(nodes[worker.index()]);
            let claim = |_: &u32| MemoryClaim {
                captured: dice.below(100) as u64,
                free: dice.below(3_000) as u64,
                owner: dice.below(2) as u64,
            };
            let claims: Vec<MemoryClaim> = nodes.iter().map(claim).collect();
            let is_ample = Worker::all(6).all(|worker| {
                let on_node = Worker::all(6).filter(|it| node_of(*it) == node_of(worker));
                let for_each = claims[worker.index()].pages_for_each(&redundancy, on_node);
                claims.iter().all(|claim| claim.captured <= for_each)
            });
            if is_ample {
                assert_eq!(shortage(&redundancy, node_of, &claims), None, "{claims:?}");
                ample += 1;
            }
        }
        assert!(ample > 1_000, "{ample}");
    }

    #[test]
    fn copies_of_all_workers_of_a_node_are_added() {
        let redundancy = place(Scheme::Copies(1));
        let on_two_nodes = |worker: Worker| u64::from(worker.0 / 2);
        // Each node stores its own pages and those of the other one: 1000 in total.
        assert_eq!(shortage(&redundancy, on_two_nodes, &claims(1000, 0)), None);
        let short = shortage(&redundancy, on_two_nodes, &claims(999, 0));
        let expected = MemoryShortage {
            reporter: Worker(0),
            needed: 1000,
            free: 999,
        };
        assert_eq!(short, Some(expected));
    }

    #[test]
    fn limits_of_one_node_that_are_different_groups_are_apart() {
        let redundancy = place(Scheme::Copies(1));
        let mut claims = claims(700, 0);
        (0..4).for_each(|at| claims[at].owner = at as u64);
        // Worker 0 stores its own 100 pages, and those of one other worker.
        assert_eq!(shortage(&redundancy, |_| 0, &claims), None);
        claims[3].free = 500;
        let short = shortage(&redundancy, |_| 0, &claims).expect("600 pages");
        assert_eq!((short.reporter, short.needed), (Worker(3), 600));
    }

    #[test]
    fn a_second_copy_and_parity_take_more() {
        let needed = |scheme| {
            let short = shortage(&place(scheme), |_| 0, &claims(0, 0));
            short.expect("no page is left").needed
        };
        assert_eq!(needed(Scheme::Copies(1)), 2000);
        assert_eq!(needed(Scheme::Copies(2)), 3000);
        assert_eq!(needed(Scheme::Parity(2)), 4000);
    }
}
