//! Plan for re-creating the communicators of all workers in a new MPI instance.

use std::collections::HashMap;
use understudy_numbers::{Worker, WorkerList};

/// Blocking collectives that MPICH counts on each communicator.
///
/// After a number of calls MPICH reduces in another order, which changes inexact sums. So a rebuilt
/// communicator repeats the first collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum CountedCollective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
}

/// First collectives on a communicator; of each kind as many as MPICH counts.
pub type FirstCollectives = Vec<CountedCollective>;

/// Description of a communicator, sent to all workers by the worker that chose its `uid`.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct PlannedCommunicator {
    pub uid: u64,
    /// Workers of the group, or of the first group, in the order of their ranks.
    pub members: WorkerList,
    /// Workers of the second group of an intercommunicator.
    pub remote: Option<WorkerList>,
    pub first_collectives: FirstCollectives,
}

impl PlannedCommunicator {
    fn workers(&self) -> impl Iterator<Item = Worker> + '_ {
        self.members
            .iter()
            .chain(self.remote.iter().flatten())
            .copied()
    }

    /// Returns the position of a worker, if it is a member.
    pub fn position_of(&self, worker: Worker) -> Option<MemberPosition<'_>> {
        let rank_in = |group: &[Worker]| group.iter().position(|&member| member == worker);
        if let Some(rank) = rank_in(&self.members) {
            return Some(MemberPosition {
                rank,
                is_second_group: false,
                remote: self.remote.as_deref(),
            });
        }
        let rank = rank_in(self.remote.as_deref()?)?;
        Some(MemberPosition {
            rank,
            is_second_group: true,
            remote: Some(&self.members),
        })
    }
}

/// Position of one worker in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPosition<'p> {
    /// Rank of the worker in its group.
    pub rank: usize,
    /// True if the group is the second one of the plan.
    pub is_second_group: bool,
    pub remote: Option<&'p [Worker]>,
}

/// Returns the worker that chose a `uid`.
pub fn chooser(uid: u64) -> Worker {
    Worker((uid >> 40) as u32)
}

/// Limit of the numbers that a worker chooses.
///
/// This number and higher ones belong to duplicates, which all members number without
/// communication.
const FIRST_DERIVED: u64 = 1 << 39;
/// Maximum number of duplicates of one communicator.
const MAX_DUPLICATES: u64 = 1 << 20;

/// Returns the chosen number of a `uid`; for a duplicate, the number of its parent.
fn chosen_number(uid: u64) -> u64 {
    match uid % (1 << 40) {
        own if own >= FIRST_DERIVED => (own - FIRST_DERIVED) / MAX_DUPLICATES,
        own => own,
    }
}

/// Returns the `uid` of a duplicate, which all members derive without communication.
///
/// The `uid` consists of the parent's `uid` and the duplicate's number. `None` if the parent is
/// itself such a duplicate, or if a number is too high.
pub fn derived_uid(parent: u64, number: u64) -> Option<u64> {
    let own = parent % (1 << 40);
    let fits = own < FIRST_DERIVED / MAX_DUPLICATES && number < MAX_DUPLICATES;
    fits.then_some(parent - own + FIRST_DERIVED + own * MAX_DUPLICATES + number)
}

/// Returns a new `uid` of `worker`, which follows its highest existing one.
///
/// The choosing worker is a member, so `known` contains all its choices that still exist, and their
/// duplicates.
pub fn next_uid(worker: Worker, known: impl Iterator<Item = u64>) -> u64 {
    let own = known
        .filter(|&uid| chooser(uid) == worker)
        .map(chosen_number);
    (u64::from(worker.0) << 40) + own.max().unwrap_or(0) + 1
}

/// Distributes communicators to batches, in each of which no worker occurs twice.
///
/// Each communicator, in the order of the `uid`s, goes to the first batch without a common worker.
/// The result does not depend on the order of the list, so all workers get equal batches.
pub fn batches(mut planned: Vec<PlannedCommunicator>) -> Vec<Vec<PlannedCommunicator>> {
    planned.sort_by_key(|planned| planned.uid);
    planned.dedup_by_key(|planned| planned.uid);
    let mut batches: Vec<Vec<PlannedCommunicator>> = Vec::new();
    // Batches in which each worker occurs, as a bit set.
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
        // A free bit always exists: the set has at least one bit more than there are batches.
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

/// Returns the `uid`s of the communicators of `worker`, sorted.
pub fn uids_of(worker: Worker, batches: &[Vec<PlannedCommunicator>]) -> Vec<u64> {
    let own = batches
        .iter()
        .flatten()
        .filter(|planned| planned.position_of(worker).is_some());
    let mut uids: Vec<u64> = own.map(|planned| planned.uid).collect();
    uids.sort_unstable();
    uids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(workers: &[u32]) -> WorkerList {
        workers.iter().copied().map(Worker).collect()
    }

    fn intra(uid: u64, members: &[u32]) -> PlannedCommunicator {
        PlannedCommunicator {
            uid,
            members: workers(members),
            remote: None,
            first_collectives: Vec::new(),
        }
    }

    fn inter(uid: u64, members: &[u32], remote: &[u32]) -> PlannedCommunicator {
        PlannedCommunicator {
            uid,
            members: workers(members),
            remote: Some(workers(remote)),
            first_collectives: Vec::new(),
        }
    }

    fn uids(batches: &[Vec<PlannedCommunicator>]) -> Vec<Vec<u64>> {
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
        let mut list: Vec<PlannedCommunicator> = (1..20)
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
    fn positions_are_derived_in_both_kinds_of_communicators() {
        let planned = inter(9, &[4, 2], &[1, 3]);
        assert_eq!(
            planned.position_of(Worker(2)),
            Some(MemberPosition {
                rank: 1,
                is_second_group: false,
                remote: Some(&[Worker(1), Worker(3)])
            })
        );
        assert_eq!(
            planned.position_of(Worker(3)),
            Some(MemberPosition {
                rank: 1,
                is_second_group: true,
                remote: Some(&[Worker(4), Worker(2)])
            })
        );
        assert_eq!(planned.position_of(Worker(0)), None);
        assert_eq!(
            intra(9, &[4, 2]).position_of(Worker(4)),
            Some(MemberPosition {
                rank: 0,
                is_second_group: false,
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
        // The parent's number is not chosen again while a duplicate of the parent exists.
        assert_eq!(next_uid(Worker(3), all.iter().copied()), (3 << 40) | 78);
        assert_eq!(derived_uid(all[0], 1), None);
        all.extend(parents);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 15);
        assert_eq!(derived_uid(parents[0], MAX_DUPLICATES), None);
    }
}
