//! Which communicators there are in all of the workers, and in which order they are made again.

use std::collections::HashMap;
use understudy_numbers::Worker;

/// Blocking collectives that MPICH counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Counted {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
}

/// The first ones on a communicator, as many of each as count.
pub type Firsts = Vec<Counted>;

/// A communicator as told to all workers by the one that chose its `uid`.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Planned {
    pub uid: u64,
    /// Worker ranks of one group in the order of their ranks.
    pub members: Vec<Worker>,
    /// Worker ranks of the other group of an intercommunicator.
    pub remote: Option<Vec<Worker>>,
    pub firsts: Firsts,
}

impl Planned {
    fn workers(&self) -> impl Iterator<Item = Worker> + '_ {
        self.members
            .iter()
            .chain(self.remote.iter().flatten())
            .copied()
    }

    /// The part of a worker, if it has one.
    pub fn part_of(&self, worker: Worker) -> Option<Part<'_>> {
        let rank_in = |group: &[Worker]| group.iter().position(|&member| member == worker);
        if let Some(rank) = rank_in(&self.members) {
            return Some(Part {
                rank,
                second: false,
                remote: self.remote.as_deref(),
            });
        }
        let rank = rank_in(self.remote.as_deref()?)?;
        Some(Part {
            rank,
            second: true,
            remote: Some(&self.members),
        })
    }
}

/// One worker's part in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'p> {
    /// Its rank in its group.
    pub rank: usize,
    /// Whether that is the second of the two groups as they stand in the plan.
    pub second: bool,
    pub remote: Option<&'p [Worker]>,
}

/// The worker that chose a `uid`.
pub fn chooser(uid: u64) -> Worker {
    Worker((uid >> 40) as u32)
}

/// What a worker has chosen is below this; above are duplicates that all members number by
/// themselves.
const DERIVED: u64 = 1 << 39;
/// Numbers of the duplicates of one communicator.
const DUPLICATES: u64 = 1 << 20;

/// What of a `uid` its chooser has chosen: for a duplicate, what it has chosen for the parent.
fn chosen(uid: u64) -> u64 {
    match uid % (1 << 40) {
        own if own >= DERIVED => (own - DERIVED) / DUPLICATES,
        own => own,
    }
}

/// The `uid` of a duplicate that nobody is told: that of its parent, and its number among the
/// parent's, tell it. There is none of a parent that is such a duplicate itself, nor for numbers
/// that are too high.
pub fn derived_uid(parent: u64, number: u64) -> Option<u64> {
    let own = parent % (1 << 40);
    let fits = own < DERIVED / DUPLICATES && number < DUPLICATES;
    fits.then_some(parent - own + DERIVED + own * DUPLICATES + number)
}

/// The lowest `uid` that `worker` may choose, given those that it knows. Whoever chooses is a
/// member, so it knows all that it has chosen, and all duplicates of those.
pub fn next_uid(worker: Worker, known: impl Iterator<Item = u64>) -> u64 {
    let own = known.filter(|&uid| chooser(uid) == worker).map(chosen);
    (u64::from(worker.0) << 40) + own.max().unwrap_or(0) + 1
}

/// Puts communicators that have no worker in common together, in the order of their `uid`s: each
/// goes to the first batch that it fits in. All workers get the same from the same list in any
/// order.
pub fn batches(mut planned: Vec<Planned>) -> Vec<Vec<Planned>> {
    planned.sort_by_key(|planned| planned.uid);
    planned.dedup_by_key(|planned| planned.uid);
    let mut batches: Vec<Vec<Planned>> = Vec::new();
    // The batches that each worker is in, as a set of bits.
    let mut taken: HashMap<Worker, Vec<u64>> = HashMap::new();
    for one in planned {
        let mut occupied = vec![0u64; batches.len() / 64 + 1];
        for worker in one.workers() {
            for (all, own) in occupied
                .iter_mut()
                .zip(taken.get(&worker).into_iter().flatten())
            {
                *all |= own;
            }
        }
        // There is always a free bit among them: there is one bit more than there are batches, at
        // least.
        let word = occupied
            .iter()
            .position(|&word| word != u64::MAX)
            .unwrap_or(occupied.len() - 1);
        let batch = (word * 64 + occupied[word].trailing_ones() as usize).min(batches.len());
        for worker in one.workers() {
            let own = taken.entry(worker).or_default();
            if own.len() <= batch / 64 {
                own.resize(batch / 64 + 1, 0);
            }
            own[batch / 64] |= 1 << (batch % 64);
        }
        if batch == batches.len() {
            batches.push(Vec::new());
        }
        batches[batch].push(one);
    }
    batches
}

/// The `uid`s that `worker` takes part in, sorted.
pub fn uids_of(worker: Worker, batches: &[Vec<Planned>]) -> Vec<u64> {
    let own = batches
        .iter()
        .flatten()
        .filter(|planned| planned.part_of(worker).is_some());
    let mut uids: Vec<u64> = own.map(|planned| planned.uid).collect();
    uids.sort_unstable();
    uids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(workers: &[u32]) -> Vec<Worker> {
        workers.iter().copied().map(Worker).collect()
    }

    fn intra(uid: u64, members: &[u32]) -> Planned {
        Planned {
            uid,
            members: workers(members),
            remote: None,
            firsts: Vec::new(),
        }
    }

    fn inter(uid: u64, members: &[u32], remote: &[u32]) -> Planned {
        Planned {
            uid,
            members: workers(members),
            remote: Some(workers(remote)),
            firsts: Vec::new(),
        }
    }

    fn uids(batches: &[Vec<Planned>]) -> Vec<Vec<u64>> {
        batches
            .iter()
            .map(|batch| batch.iter().map(|planned| planned.uid).collect())
            .collect()
    }

    #[test]
    fn disjoint_communicators_share_a_batch() {
        let halves = vec![
            intra(2, &[2, 3]),
            intra(1, &[0, 1]),
            intra(4, &[3, 2, 1, 0]),
            intra(3, &[1, 2]),
            intra(5, &[0]),
        ];
        assert_eq!(uids(&batches(halves)), [vec![1, 2], vec![3, 5], vec![4]]);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut list: Vec<Planned> = (1..20)
            .map(|uid| intra(uid, &[uid as u32 % 5, uid as u32 % 3 + 5]))
            .collect();
        let expected = batches(list.clone());
        list.reverse();
        list.push(list[3].clone());
        assert_eq!(batches(list), expected);
    }

    #[test]
    fn both_groups_of_an_intercommunicator_are_taken() {
        let list = vec![inter(1, &[0, 1], &[2]), intra(2, &[2, 3]), intra(3, &[3])];
        assert_eq!(uids(&batches(list)), [vec![1, 3], vec![2]]);
    }

    #[test]
    fn more_batches_than_bits_in_a_word() {
        let all = batches(
            (1..=200)
                .map(|uid| intra(uid, &[0, 1]))
                .chain([intra(300, &[2])])
                .collect(),
        );
        assert_eq!(all.len(), 200);
        assert!(
            all.iter()
                .enumerate()
                .all(|(index, batch)| batch[0].uid == index as u64 + 1)
        );
        assert_eq!(all[0][1].uid, 300);
    }

    #[test]
    fn parts_are_derived_for_both_sides() {
        let planned = inter(9, &[4, 2], &[1, 3]);
        assert_eq!(
            planned.part_of(Worker(2)),
            Some(Part {
                rank: 1,
                second: false,
                remote: Some(&[Worker(1), Worker(3)])
            })
        );
        assert_eq!(
            planned.part_of(Worker(3)),
            Some(Part {
                rank: 1,
                second: true,
                remote: Some(&[Worker(4), Worker(2)])
            })
        );
        assert_eq!(planned.part_of(Worker(0)), None);
        assert_eq!(
            intra(9, &[4, 2]).part_of(Worker(4)),
            Some(Part {
                rank: 0,
                second: false,
                remote: None
            })
        );
        assert_eq!(
            uids_of(
                Worker(3),
                &batches(vec![intra(7, &[3]), planned, intra(8, &[0])])
            ),
            [7, 9]
        );
    }

    #[test]
    fn uids_are_not_used_twice_while_they_exist() {
        assert_eq!(next_uid(Worker(0), [0, u64::MAX].into_iter()), 1);
        assert_eq!(
            next_uid(
                Worker(3),
                [0, 5, (3 << 40) | 1, (3 << 40) | 7, 4 << 40].into_iter()
            ),
            (3 << 40) | 8
        );
        assert_eq!(chooser(next_uid(Worker(3), std::iter::empty())), Worker(3));
    }

    #[test]
    fn derived_uids_are_those_of_one_parent_and_number() {
        let parents = [1, 2, 77].map(|own| (3 << 40) | own);
        let mut all: Vec<u64> = parents
            .iter()
            .flat_map(|&parent| (1..5).filter_map(move |number| derived_uid(parent, number)))
            .collect();
        assert!(all.iter().all(|&uid| chooser(uid) == Worker(3)));
        // A parent's number is not chosen again as long as a duplicate of it is there.
        assert_eq!(next_uid(Worker(3), all.iter().copied()), (3 << 40) | 78);
        assert_eq!(derived_uid(all[0], 1), None);
        all.extend(parents);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 15);
        assert_eq!(derived_uid(parents[0], DUPLICATES), None);
    }
}
