//! Placement of replicas, computed from the failure domains of the workers.
//!
//! A failure domain is by default a node. The buddy of worker r is worker r + offset mod W, unless
//! both are in one domain and another placement is possible. In that case r exchanges buddies with
//! the next worker for which the exchange puts both replicas into other domains.
//!
//! Buddies belong to workers, not to processes: a replacement stores the replica that the dead
//! worker stored, on whichever node it runs.

use understudy_numbers::{Worker, WorkerList};

/// Buddy of each worker; every worker stores exactly one replica.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Buddies {
    buddy: WorkerList,
    owner: WorkerList,
}

impl Buddies {
    /// Places the replica of worker r at worker r + offset mod W.
    ///
    /// An offset that is a multiple of W counts as 1.
    pub fn rotation(workers: u32, offset: u32) -> Buddies {
        // A single worker is its own buddy: 1 is a multiple of 1, too.
        let offset = if offset.is_multiple_of(workers.max(1)) {
            1
        } else {
            offset
        };
        let at = |worker: Worker| {
            Worker(((u64::from(worker.0) + u64::from(offset)) % u64::from(workers)) as u32)
        };
        Buddies::new(Worker::all(workers).map(at).collect())
    }

    /// Places replicas close to the rotation, with as few as possible in their worker's domain.
    ///
    /// `domains` contains the domain of each worker.
    pub fn place(domains: &[u32], offset: u32) -> Buddies {
        let workers = domains.len();
        let mut buddy = Vec::from(Buddies::rotation(workers as u32, offset).buddy);
        let apart = |worker: usize, buddy: Worker| domains[worker] != domains[buddy.index()];
        for worker in 0..workers {
            if apart(worker, buddy[worker]) {
                continue;
            }
            // If no domain has more than half of the workers, an exchange always exists: at least
            // one worker of another domain does not have its replica in this domain.
            let next = (1..workers)
                .map(|distance| (worker + distance) % workers)
                .find(|&other| apart(worker, buddy[other]) && apart(other, buddy[worker]));
            // Without a partner here, no other worker has one: every pair of a worker and its buddy
            // touches this domain.
            let Some(other) = next else { break };
            buddy.swap(worker, other);
        }
        Buddies::new(buddy)
    }

    /// Places second replicas, never at the buddies of `first`.
    ///
    /// A second replica is, as far as possible, neither in its worker's domain nor in that of the
    /// first replica. Requires at least three workers.
    pub fn place_second(domains: &[u32], offset: u32, first: &Buddies) -> Buddies {
        let workers = domains.len();
        // Cost of a second replica of `worker` at `buddy`.
        let cost = |worker: usize, buddy: Worker| {
            let is_taken = buddy.index() == worker || buddy == first.buddy[worker];
            let domain = domains[buddy.index()];
            let is_at_home = domain == domains[worker];
            let is_with_first = domain == domains[first.buddy[worker].index()];
            1_000_000 * u64::from(is_taken)
                + 1000 * u64::from(is_at_home)
                + u64::from(is_with_first)
        };
        let rotations = [offset.saturating_mul(2), offset.saturating_add(1), 1, 2];
        let rotations =
            rotations.map(|offset| Vec::from(Buddies::rotation(workers as u32, offset).buddy));
        let total = |buddy: &Vec<Worker>| -> u64 {
            (0..workers).map(|worker| cost(worker, buddy[worker])).sum()
        };
        let [a, b, c, d] = rotations;
        let mut buddy = [b, c, d].into_iter().fold(a, |best, other| {
            if total(&other) < total(&best) {
                other
            } else {
                best
            }
        });
        // Exchanges buddies as long as an exchange reduces the cost. Each exchange reduces the cost
        // by at least 1, so the loop ends.
        let mut is_better = true;
        while is_better {
            is_better = false;
            for worker in 0..workers {
                let own = cost(worker, buddy[worker]);
                if own == 0 {
                    continue;
                }
                let gain = |&other: &usize| {
                    let before = own + cost(other, buddy[other]);
                    before > cost(worker, buddy[other]) + cost(other, buddy[worker])
                };
                let next = (1..workers)
                    .map(|distance| (worker + distance) % workers)
                    .find(gain);
                if let Some(other) = next {
                    buddy.swap(worker, other);
                    is_better = true;
                }
            }
        }
        Buddies::new(buddy)
    }

    fn new(buddy: Vec<Worker>) -> Buddies {
        let mut owner = vec![Worker::default(); buddy.len()];
        for (worker, &buddy) in buddy.iter().enumerate() {
            owner[buddy.index()] = Worker::at(worker);
        }
        Buddies {
            buddy: buddy.into(),
            owner: owner.into(),
        }
    }

    /// Returns the worker that stores this worker's replica.
    pub fn buddy_of(&self, worker: Worker) -> Worker {
        self.buddy[worker.index()]
    }

    /// Returns the worker whose replica this worker stores.
    pub fn owner_at(&self, worker: Worker) -> Worker {
        self.owner[worker.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers (splitmix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % u64::from(limit)) as u32
        }
    }

    fn largest_domain(domains: &[u32]) -> usize {
        let size = |domain: &u32| domains.iter().filter(|other| *other == domain).count();
        domains.iter().map(size).max().unwrap_or(0)
    }

    #[test]
    fn random_placements_are_permutations_without_fixed_points_and_with_the_fewest_copies_at_home()
    {
        let mut random = Random(7);
        for _ in 0..3000 {
            let workers = 2 + random.below(30);
            let kinds = 1 + random.below(8);
            let domains: Vec<u32> = (0..workers).map(|_| random.below(kinds)).collect();
            let offset = random.below(2 * workers);
            let buddies = Buddies::place(&domains, offset);
            let mut seen: Vec<Worker> = Worker::all(workers)
                .map(|worker| buddies.buddy_of(worker))
                .collect();
            for worker in Worker::all(workers) {
                assert_ne!(buddies.buddy_of(worker), worker, "{domains:?} {offset}");
                assert_eq!(buddies.owner_at(buddies.buddy_of(worker)), worker);
            }
            seen.sort_unstable();
            assert_eq!(seen, Worker::all(workers).collect::<Vec<_>>());
            let fewest = (2 * largest_domain(&domains)).saturating_sub(workers as usize);
            assert_eq!(at_home(&buddies, &domains), fewest, "{domains:?} {offset}");
        }
    }

    fn at_home(buddies: &Buddies, domains: &[u32]) -> usize {
        let domain = |worker: Worker| domains[worker.index()];
        let is_at_home = |&worker: &Worker| domain(worker) == domain(buddies.buddy_of(worker));
        Worker::all(domains.len() as u32).filter(is_at_home).count()
    }

    #[test]
    fn second_copies_are_elsewhere_than_the_first() {
        let mut random = Random(11);
        for _ in 0..3000 {
            let workers = 3 + random.below(30);
            let kinds = 1 + random.below(8);
            let domains: Vec<u32> = (0..workers).map(|_| random.below(kinds)).collect();
            let offset = random.below(2 * workers);
            let first = Buddies::place(&domains, offset);
            let second = Buddies::place_second(&domains, offset, &first);
            for worker in Worker::all(workers) {
                let buddy = second.buddy_of(worker);
                assert_ne!(buddy, worker, "{domains:?} {offset}");
                assert_ne!(buddy, first.buddy_of(worker), "{domains:?} {offset}");
                assert_eq!(second.owner_at(buddy), worker);
            }
        }
        // With three domains of equal size, each domain has one replica of each worker.
        let domains = [0, 0, 1, 1, 2, 2];
        let first = Buddies::place(&domains, 2);
        let second = Buddies::place_second(&domains, 2, &first);
        for worker in Worker::all(6) {
            let mut all = [worker, first.buddy_of(worker), second.buddy_of(worker)]
                .map(|it| domains[it.index()]);
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2], "worker {worker}");
        }
    }

    /// A search for a partner of each worker would take minutes.
    #[test]
    fn placements_that_need_no_exchange_or_allow_none_need_one_pass() {
        const WORKERS: u32 = 500_000;
        const PER_NODE: u32 = 64;
        let nodes: Vec<u32> = (0..WORKERS).map(|worker| worker / PER_NODE).collect();
        let first = Buddies::place(&nodes, PER_NODE);
        assert_eq!(first, Buddies::rotation(WORKERS, PER_NODE));
        let second = Buddies::place_second(&nodes, PER_NODE, &first);
        assert_eq!(second, Buddies::rotation(WORKERS, 2 * PER_NODE));
        let one = Buddies::place(&vec![0; WORKERS as usize], PER_NODE);
        assert_eq!(one, Buddies::rotation(WORKERS, PER_NODE));
    }

    #[test]
    fn what_needs_no_change_is_a_rotation() {
        for (domains, offset) in [
            (&[0, 0, 1, 1, 2, 2][..], 2),
            (&[0, 1, 2, 0, 1, 2], 1),
            (&[0, 0, 0, 0], 3),
        ] {
            let rotation = Buddies::rotation(domains.len() as u32, offset);
            assert_eq!(Buddies::place(domains, offset), rotation);
        }
    }

    #[test]
    fn only_what_must_change_is_changed() {
        // Workers 0, 1 and 2 are on one node, the others on one node each. In a plain rotation, the
        // replica of worker 0 would be on its own node.
        let buddies = Buddies::place(&[0, 0, 0, 1, 2, 3], 2);
        let all: Vec<u32> = Worker::all(6)
            .map(|worker| buddies.buddy_of(worker).0)
            .collect();
        assert_eq!(all, [5, 3, 4, 2, 0, 1]);
    }

    #[test]
    fn the_buddy_is_never_the_worker_itself() {
        for offset in [0, 1, 2, 3, 4, 6, 8, u32::MAX] {
            let buddies = Buddies::rotation(4, offset);
            assert!(
                Worker::all(4).all(|worker| buddies.buddy_of(worker) != worker),
                "{offset}"
            );
        }
        assert_eq!(Buddies::rotation(4, 8), Buddies::rotation(4, 1));
        assert_eq!(Buddies::rotation(1, 3).buddy_of(Worker(0)), Worker(0));
        assert_eq!(Buddies::rotation(8, 4).buddy_of(Worker(5)), Worker(1));
    }
}
