//! Plans from the reports of living processes.

use super::{
    DamagedReplica, KeptReplicas, Plan, PlanFailure, ProcessReport, ReplicaFetch, ReplicaRebuild,
    RequestedSpare, SourceFailure, Takeover,
};
use crate::redundancy::Redundancy;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_settings::Scheme;

/// Places replicas of workers that are all in one domain.
fn copies(workers: u32, offset: u32, copies: u32) -> Redundancy {
    Redundancy::place(&vec![0; workers as usize], offset, Scheme::Copies(copies))
}

/// Computes the plan for one replica at `offset`.
fn make(living: &[ProcessReport], workers: u32, offset: u32) -> Result<Plan, PlanFailure> {
    super::make_plan(living, &copies(workers, offset, 1), workers, &[])
}

/// Returns the worker whose replicas are lost.
fn lost_worker(living: &[ProcessReport], workers: u32) -> Option<u32> {
    match make(living, workers, 1) {
        Err(PlanFailure::Copies { worker, .. }) => Some(worker.0),
        _ => None,
    }
}

fn worker(process: u32, part: u32, committed: u64) -> ProcessReport {
    ProcessReport {
        process: ProcessNumber(process),
        worker: Some(Worker(part)),
        committed: Epoch(committed),
        ..ProcessReport::default()
    }
}

fn joining(process: u32) -> ProcessReport {
    ProcessReport {
        process: ProcessNumber(process),
        ..ProcessReport::default()
    }
}

fn with_replicas(process: u32, own: u32, layers: u64, epoch: u64) -> ProcessReport {
    let held = KeptReplicas {
        own: Worker(own),
        has_own: true,
        layers,
        epoch: Epoch(epoch),
        whole: None,
        process: None,
    };
    ProcessReport {
        kept: Some(held),
        ..joining(process)
    }
}

fn whole(identity: ProcessReport, whole: u64) -> ProcessReport {
    ProcessReport {
        complete: Some(Epoch(whole)),
        ..identity
    }
}

fn takeover(worker: u32, process: u32) -> Takeover {
    Takeover {
        worker: Worker(worker),
        process: ProcessNumber(process),
        has_own: false,
        layers: 0,
    }
}

fn fetch(worker: u32, from: u32) -> ReplicaFetch {
    let (worker, from) = (Worker(worker), Worker(from));
    ReplicaFetch { worker, from }
}

fn remake(worker: u32, layer: usize, at: u32) -> ReplicaRebuild {
    let (worker, at) = (Worker(worker), Worker(at));
    ReplicaRebuild { worker, layer, at }
}

fn processes<const N: usize>(processes: [u32; N]) -> Vec<ProcessNumber> {
    processes.map(ProcessNumber).into()
}

#[test]
fn the_lowest_joining_process_replaces_the_lowest_failed_worker() {
    let living = [
        worker(0, 0, 3),
        worker(2, 2, 3),
        worker(3, 3, 3),
        joining(4),
        joining(5),
    ];
    let plan = make(&living, 4, 2).unwrap();
    assert_eq!(
        plan,
        Plan {
            epoch: Epoch(3),
            takeovers: vec![takeover(1, 4)],
            process_of: processes([0, 4, 2, 3]),
            fetches: vec![fetch(1, 3)],
            rebuilds: vec![remake(3, 0, 1)],
            lost: None,
        }
    );
}

#[test]
fn an_epoch_that_anyone_has_committed_counts() {
    let living = [whole(worker(0, 0, 3), 4), worker(1, 1, 4), joining(3)];
    assert_eq!(make(&living, 3, 1).unwrap().epoch, Epoch(4));
    let behind = [worker(0, 0, 3), worker(1, 1, 4), joining(3)];
    assert_eq!(
        make(&behind, 3, 1),
        Err(PlanFailure::Behind {
            worker: Worker(0),
            at: Epoch(3),
            epoch: Epoch(4)
        })
    );
}

#[test]
fn an_epoch_that_the_dead_may_have_committed_counts_if_all_others_have_it_whole() {
    let all = [
        whole(worker(0, 0, 3), 4),
        whole(worker(1, 1, 3), 4),
        joining(3),
    ];
    assert_eq!(make(&all, 3, 1).unwrap().epoch, Epoch(4));
    let not_all = [whole(worker(0, 0, 3), 4), worker(1, 1, 3), joining(3)];
    assert_eq!(make(&not_all, 3, 1).unwrap().epoch, Epoch(3));
    // Worker 2, which is dead, too, may have been the only one to record that worker 1 had not
    // finished.
    let no_buddy = [
        whole(worker(0, 0, 3), 4),
        whole(worker(3, 3, 3), 4),
        joining(4),
        joining(5),
    ];
    let lost = PlanFailure::Copies {
        worker: Worker(1),
        died: true,
        buddies: vec![(Worker(2), SourceFailure::Dead)],
        epoch: Epoch(3),
    };
    assert_eq!(make(&no_buddy, 4, 1), Err(lost));
}

#[test]
fn what_is_lost_is_named() {
    let living = [worker(0, 0, 2), worker(3, 3, 2), joining(4), joining(5)];
    let lost = PlanFailure::Copies {
        worker: Worker(1),
        died: true,
        buddies: vec![(Worker(2), SourceFailure::Dead)],
        epoch: Epoch(2),
    };
    assert_eq!(make(&living, 4, 1), Err(lost));
    assert_eq!(
        make(&[worker(0, 0, 0), joining(2)], 2, 1),
        Err(PlanFailure::Init)
    );
}

#[test]
fn replicas_from_an_earlier_attempt_count_as_copies() {
    let fetched = Takeover {
        has_own: true,
        ..takeover(1, 5)
    };
    // Worker 2 stored the only other replica of worker 1.
    let living = [
        worker(0, 0, 2),
        worker(3, 3, 2),
        joining(4),
        with_replicas(5, 1, 0, 2),
    ];
    let plan = make(&living, 4, 1).unwrap();
    assert_eq!(plan.takeovers, vec![fetched, takeover(2, 4)]);
    assert_eq!(plan.process_of, processes([0, 5, 4, 3]));
    // An older epoch is useless.
    let living = [
        worker(0, 0, 3),
        worker(3, 3, 3),
        joining(4),
        with_replicas(5, 1, 0, 2),
    ];
    assert_eq!(lost_worker(&living, 4), Some(1));
    // Worker 1 stored the replica of worker 0, which its successor has received.
    let living = [
        worker(2, 2, 2),
        worker(3, 3, 2),
        joining(4),
        with_replicas(5, 1, 1, 2),
    ];
    let plan = make(&living, 4, 1).unwrap();
    let both = Takeover {
        layers: 1,
        ..fetched
    };
    assert_eq!(plan.takeovers, vec![takeover(0, 4), both]);
    // Without that replica, worker 0 is lost.
    let living = [
        worker(2, 2, 2),
        worker(3, 3, 2),
        joining(4),
        with_replicas(5, 1, 0, 2),
    ];
    assert_eq!(lost_worker(&living, 4), Some(0));
}

/// Creates a joining process with all layers of a worker.
///
/// They are also of a later epoch unless `complete` is 0.
fn adopter(process: u32, own: u32, epoch: u64, whole: u64) -> ProcessReport {
    let mut adopter = with_replicas(process, own, 1, epoch);
    if let Some(held) = &mut adopter.kept {
        held.whole = (whole != 0).then_some(Epoch(whole));
        held.process = Some(ProcessNumber(own));
    }
    adopter
}

#[test]
fn adopted_stores_suffice_alone() {
    let has_all = |worker, process| Takeover {
        has_own: true,
        layers: 1,
        ..takeover(worker, process)
    };
    // A worker with its buddy, then all workers.
    let living = [
        worker(0, 0, 3),
        worker(3, 3, 3),
        adopter(4, 1, 3, 0),
        adopter(5, 2, 3, 0),
    ];
    let plan = make(&living, 4, 1).unwrap();
    assert_eq!(plan.takeovers, [has_all(1, 4), has_all(2, 5)]);
    assert_eq!((plan.fetches, plan.rebuilds), (vec![], vec![]));
    let plan = make(&[adopter(2, 1, 3, 0), adopter(3, 0, 3, 0)], 2, 1).unwrap();
    assert_eq!(plan.takeovers, [has_all(0, 3), has_all(1, 2)]);
    assert_eq!(plan.epoch, Epoch(3));
    // A single worker has no buddy.
    let alone = Redundancy::place(&[0], 1, Scheme::Copies(0));
    assert_eq!(
        super::make_plan(&[adopter(1, 0, 3, 0)], &alone, 1, &[])
            .unwrap()
            .takeovers
            .len(),
        1
    );
    let lost = super::make_plan(&[joining(1)], &alone, 1, &[]);
    assert_eq!(lost, Err(PlanFailure::Everyone));
}

#[test]
fn adopted_stores_report_the_epoch_that_was_under_way() {
    let epoch = |living: &[ProcessReport]| make(living, 3, 1).map(|plan| plan.epoch.0);
    // One process has seen the commit.
    assert_eq!(
        epoch(&[
            adopter(3, 0, 4, 0),
            adopter(4, 1, 3, 4),
            adopter(5, 2, 3, 4)
        ]),
        Ok(4)
    );
    assert_eq!(
        epoch(&[worker(0, 0, 4), adopter(4, 1, 3, 4), worker(2, 2, 4)]),
        Ok(4)
    );
    // The epoch may be committed: all processes have complete replicas.
    assert_eq!(
        epoch(&[
            adopter(3, 0, 3, 4),
            adopter(4, 1, 3, 4),
            adopter(5, 2, 3, 4)
        ]),
        Ok(4)
    );
    assert_eq!(
        epoch(&[
            whole(worker(0, 0, 3), 4),
            adopter(4, 1, 3, 4),
            whole(worker(2, 2, 3), 4)
        ]),
        Ok(4)
    );
    // The epoch was not committed: a living worker has not finished it.
    assert_eq!(
        epoch(&[worker(0, 0, 3), adopter(4, 1, 3, 4), adopter(5, 2, 3, 4)]),
        Ok(3)
    );
    // Neither had worker 1, whose replica of that epoch died with worker 2.
    assert_eq!(
        epoch(&[
            whole(worker(0, 0, 3), 4),
            adopter(4, 1, 3, 0),
            adopter(5, 2, 3, 0)
        ]),
        Ok(3)
    );
    // The first epoch was complete, and no process has died that could have seen the commit.
    assert_eq!(
        epoch(&[
            adopter(3, 0, 0, 1),
            adopter(4, 1, 0, 1),
            adopter(5, 2, 0, 1)
        ]),
        Ok(1)
    );
    assert_eq!(
        epoch(&[
            adopter(3, 0, 0, 1),
            adopter(4, 1, 0, 0),
            adopter(5, 2, 0, 0)
        ]),
        Err(PlanFailure::Init)
    );
    // Worker 1's replica comes from the successor of its buddy.
    let plan = make(
        &[
            whole(worker(0, 0, 3), 4),
            adopter(4, 1, 3, 0),
            adopter(5, 2, 3, 4),
        ],
        3,
        1,
    )
    .unwrap();
    assert_eq!((plan.epoch, plan.fetches), (Epoch(4), vec![fetch(1, 2)]));
}

#[test]
fn the_cheaper_epoch_is_taken_if_no_process_can_have_committed_the_later_one() {
    let costs = |identity: ProcessReport, lost_ns, fetch_ns| ProcessReport {
        lost_ns,
        fetch_ns,
        ..identity
    };
    let living = |lost, fetch| costs(whole(worker(0, 0, 3), 4), lost, fetch);
    let other = costs(whole(worker(2, 2, 3), 4), 10, 100);
    let epoch = |living: &[ProcessReport]| {
        make(living, 3, 1).map(|plan| (plan.epoch.0, plan.fetches.len()))
    };
    assert_eq!(
        epoch(&[living(99, 80), adopter(4, 1, 3, 0), other.clone()]),
        Ok((3, 0))
    );
    assert_eq!(
        epoch(&[living(100, 80), adopter(4, 1, 3, 0), other.clone()]),
        Ok((4, 1))
    );
    assert_eq!(
        epoch(&[living(0, 0), adopter(4, 1, 3, 0), whole(worker(2, 2, 3), 4)]),
        Ok((4, 1))
    );
    // Worker 1 may have entered the vote and seen the commit.
    assert_eq!(
        epoch(&[living(0, 80), adopter(4, 1, 3, 4), other.clone()]),
        Ok((4, 0))
    );
    assert_eq!(
        epoch(&[living(0, 80), joining(4), other.clone()]),
        Ok((4, 1))
    );
    assert_eq!(
        epoch(&[living(0, 80), with_replicas(4, 1, 1, 3), other.clone()]),
        Ok((4, 1))
    );
    // A dead process never entered the vote.
    assert_eq!(
        epoch(&[living(0, 80), adopter(4, 1, 3, 4), adopter(5, 2, 3, 0)]),
        Ok((3, 0))
    );
    // A living process may need what worker 1 has stored for it.
    let reduced = |lost| ProcessReport {
        is_reduced: true,
        ..living(lost, 80)
    };
    assert_eq!(
        epoch(&[reduced(100), adopter(4, 1, 3, 0), other.clone()]),
        Ok((3, 0))
    );
    assert_eq!(
        epoch(&[reduced(0), adopter(4, 1, 3, 4), other.clone()]),
        Ok((4, 0))
    );
    assert_eq!(epoch(&[reduced(0), joining(4), other.clone()]), Ok((4, 1)));
    // No earlier epoch exists.
    let first = |identity| costs(whole(identity, 1), 0, 80);
    assert_eq!(
        epoch(&[
            first(worker(0, 0, 0)),
            adopter(4, 1, 0, 0),
            first(worker(2, 2, 0))
        ]),
        Ok((1, 1))
    );
}

#[test]
fn adopted_stores_without_a_whole_own_copy_have_those_of_buddies() {
    let reduced = |mut adopter: ProcessReport| {
        adopter.kept.as_mut().unwrap().has_own = false;
        adopter
    };
    let living = [
        worker(0, 0, 3),
        reduced(adopter(4, 1, 3, 0)),
        worker(2, 2, 3),
    ];
    let plan = make(&living, 3, 1).unwrap();
    let has_stored = Takeover {
        layers: 1,
        ..takeover(1, 4)
    };
    assert_eq!(
        (plan.takeovers, plan.fetches),
        (vec![has_stored], vec![fetch(1, 2)])
    );
    assert_eq!(plan.rebuilds, []);
    // No other process has worker 1's replica.
    let living = [worker(0, 0, 3), reduced(adopter(4, 1, 3, 0)), joining(5)];
    assert_eq!(lost_worker(&living, 3), Some(1));
}

#[test]
fn a_failure_without_a_dead_worker_needs_no_takeover() {
    let plan = make(&[worker(0, 0, 2), worker(1, 1, 2)], 2, 1).unwrap();
    assert_eq!(
        plan,
        Plan {
            epoch: Epoch(2),
            takeovers: vec![],
            process_of: processes([0, 1]),
            fetches: vec![],
            rebuilds: vec![],
            lost: None,
        }
    );
}

#[test]
fn what_is_lost_in_memory_may_be_on_disk() {
    let living = [
        worker(0, 0, 2),
        worker(3, 3, 2),
        joining(4),
        with_replicas(5, 1, 0, 2),
    ];
    let lost = PlanFailure::Behind {
        worker: Worker(3),
        at: Epoch(2),
        epoch: Epoch(4),
    };
    let plan = super::make_plan_from_disk(&living, &copies(4, 1, 1), 4, &[], lost.clone());
    assert_eq!(plan.takeovers, [takeover(1, 4), takeover(2, 5)]);
    assert_eq!(
        (plan.process_of, plan.lost),
        (processes([0, 4, 5, 3]), Some(lost.clone()))
    );
}

fn refusing(mut identity: ProcessReport, worker: u32, at: u32) -> ProcessReport {
    identity.damaged.push(DamagedReplica {
        worker: Worker(worker),
        at: ProcessNumber(at),
    });
    identity
}

#[test]
fn a_damaged_copy_is_not_used_and_is_rebuilt() {
    // Replicas of worker 1 are at workers 2 (damaged) and 3.
    let living = [
        worker(0, 0, 5),
        worker(2, 2, 5),
        worker(3, 3, 5),
        refusing(joining(4), 1, 2),
    ];
    let plan = super::make_plan(&living, &copies(4, 1, 2), 4, &[]).unwrap();
    assert_eq!(plan.fetches, [fetch(1, 3)]);
    assert_eq!(
        plan.rebuilds,
        [remake(0, 0, 1), remake(1, 0, 2), remake(3, 1, 1)]
    );
    // With one replica per worker, worker 1 is lost.
    let damaged = |died, buddies| PlanFailure::Copies {
        worker: Worker(1),
        died,
        buddies: buddies,
        epoch: Epoch(5),
    };
    let lost = damaged(true, vec![(Worker(2), SourceFailure::Damaged)]);
    assert_eq!(make(&living, 4, 1), Err(lost));
    // The error lists all lost replicas.
    let living = [&living[..2], &living[3..], &[joining(5)]].concat();
    let lost = damaged(
        true,
        vec![
            (Worker(2), SourceFailure::Damaged),
            (Worker(3), SourceFailure::Dead),
        ],
    );
    assert_eq!(
        super::make_plan(&living, &copies(4, 1, 2), 4, &[]),
        Err(lost)
    );
    // A survivor whose own replica is damaged gets it from its buddy.
    let living = [worker(0, 0, 5), refusing(worker(1, 1, 5), 1, 1)];
    assert_eq!(make(&living, 2, 1).unwrap().fetches, [fetch(1, 0)]);
    let living = [
        refusing(worker(0, 0, 5), 1, 0),
        refusing(worker(1, 1, 5), 1, 1),
    ];
    let lost = PlanFailure::Copies {
        worker: Worker(1),
        died: false,
        buddies: vec![(Worker(0), SourceFailure::Damaged)],
        epoch: Epoch(5),
    };
    assert_eq!(make(&living, 2, 1), Err(lost));
}

#[test]
fn with_two_copies_any_two_may_die_at_once() {
    for first in 0..5 {
        for second in first + 1..5u32 {
            let alive = (0..5u32).filter(|part| ![first, second].contains(part));
            let mut living: Vec<ProcessReport> = alive.map(|part| worker(part, part, 3)).collect();
            living.extend([joining(5), joining(6)]);
            let plan = super::make_plan(&living, &copies(5, 1, 2), 5, &[]).unwrap();
            let fetched: Vec<u32> = plan.fetches.iter().map(|fetch| fetch.worker.0).collect();
            assert_eq!(fetched, [first, second]);
            assert!(
                plan.fetches
                    .iter()
                    .all(|fetch| ![first, second].contains(&fetch.from.0))
            );
        }
    }
}

#[test]
fn with_parity_all_others_of_the_group_are_needed() {
    // Groups of workers 0, 2, 4 and 1, 3.
    let parity = |living: &[ProcessReport]| {
        super::make_plan(
            living,
            &Redundancy::place(&[0; 5], 1, Scheme::Parity(3)),
            5,
            &[],
        )
    };
    let living = [
        worker(1, 1, 5),
        worker(2, 2, 5),
        worker(4, 4, 5),
        joining(5),
        joining(6),
    ];
    let plan = parity(&living).unwrap();
    assert_eq!(plan.fetches, [fetch(0, 2), fetch(0, 4), fetch(3, 1)]);
    assert_eq!(
        plan.rebuilds,
        [remake(1, 0, 3), remake(2, 1, 0), remake(4, 0, 0)]
    );
    // Two of a group.
    let gone = |worker, buddies| PlanFailure::Copies {
        worker: Worker(worker),
        died: true,
        buddies: buddies,
        epoch: Epoch(5),
    };
    let living = [
        worker(1, 1, 5),
        worker(3, 3, 5),
        worker(4, 4, 5),
        joining(5),
        joining(6),
    ];
    assert_eq!(
        parity(&living),
        Err(gone(0, vec![(Worker(2), SourceFailure::Dead)]))
    );
    // A successor that has everything of the dead member is equivalent to it; one without the
    // parity is not.
    let living = |layers| {
        let successor = with_replicas(5, 2, layers, 5);
        [
            worker(1, 1, 5),
            worker(3, 3, 5),
            worker(4, 4, 5),
            successor,
            joining(6),
        ]
    };
    assert_eq!(
        parity(&living(3)).unwrap().fetches,
        [fetch(0, 2), fetch(0, 4)]
    );
    assert_eq!(
        parity(&living(0)),
        Err(gone(0, vec![(Worker(2), SourceFailure::Dead)]))
    );
    // Damaged data cannot be used for others.
    let living = [
        worker(1, 1, 5),
        refusing(worker(2, 2, 5), 2, 2),
        worker(3, 3, 5),
        worker(4, 4, 5),
        joining(5),
    ];
    assert_eq!(
        parity(&living),
        Err(gone(0, vec![(Worker(2), SourceFailure::Damaged)]))
    );
    // The parity is rebuilt from the pages of all members.
    let living = [0, 1, 2, 3, 4].map(|part| refusing(worker(part, part, 5), 0, 2));
    assert_eq!(
        parity(&living).unwrap().rebuilds,
        [remake(0, 0, 2), remake(4, 1, 2)]
    );
}

/// For all hints, a plan contains each dead worker and each process at most once.
///
/// It uses only living, idle processes.
#[test]
fn a_placement_hint_counts_if_it_is_possible() {
    let living = [
        worker(0, 0, 3),
        worker(3, 3, 3),
        joining(4),
        joining(5),
        joining(6),
    ];
    let takeovers = |hints: &[(u32, u32)]| {
        let hint = |&(worker, spare): &(u32, u32)| RequestedSpare {
            worker: Worker(worker),
            spare: ProcessNumber(spare),
        };
        let hints: Vec<RequestedSpare> = hints.iter().map(hint).collect();
        super::make_plan(&living, &copies(4, 2, 1), 4, &hints)
            .unwrap()
            .takeovers
    };
    assert_eq!(
        takeovers(&[(1, 6), (2, 5)]),
        [takeover(1, 6), takeover(2, 5)]
    );
    assert_eq!(takeovers(&[(2, 4)]), [takeover(1, 5), takeover(2, 4)]);
    let by_rule = [takeover(1, 4), takeover(2, 5)];
    // Hints of a worker, a missing process, a dead one, an invalid number, and other workers.
    assert_eq!(takeovers(&[(1, 0), (2, 99)]), by_rule);
    assert_eq!(takeovers(&[(1, 1), (2, u32::MAX)]), by_rule);
    assert_eq!(takeovers(&[(0, 6), (7, 5)]), by_rule);
    // One process twice.
    assert_eq!(
        takeovers(&[(1, 6), (2, 6)]),
        [takeover(1, 6), takeover(2, 4)]
    );
}

#[test]
fn a_copy_in_place_counts_more_than_a_placement_hint() {
    let living = [
        worker(0, 0, 3),
        worker(2, 2, 3),
        worker(3, 3, 3),
        joining(4),
        with_replicas(5, 1, 1, 3),
    ];
    let hint = RequestedSpare {
        worker: Worker(1),
        spare: ProcessNumber(4),
    };
    let plan = super::make_plan(&living, &copies(4, 2, 1), 4, &[hint]).unwrap();
    assert_eq!(plan.takeovers[0].process, ProcessNumber(5));
}
