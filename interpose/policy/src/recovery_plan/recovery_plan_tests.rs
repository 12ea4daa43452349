//! Plans from the reports of living processes.

mod deferred_tests;
mod left_replicas_tests;
mod redundancy_tests;

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

fn worker(process: u32, number: u32, committed: u64) -> ProcessReport {
    ProcessReport {
        process: ProcessNumber(process),
        worker: Some(Worker(number)),
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
    let kept = KeptReplicas {
        own: Worker(own),
        has_own: true,
        layers,
        epoch: Epoch(epoch),
        whole: None,
        whole_layers: 0,
        process: None,
    };
    ProcessReport {
        kept: Some(kept),
        ..joining(process)
    }
}

fn whole(report: ProcessReport, whole: u64) -> ProcessReport {
    ProcessReport {
        complete: Some(Epoch(whole)),
        ..report
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

fn rebuild(worker: u32, layer: usize, at: u32) -> ReplicaRebuild {
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
            rebuilds: vec![rebuild(3, 0, 1)],
            deferred: vec![],
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
fn a_failed_plan_names_the_lost_worker_and_its_buddies() {
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
    // Worker 1 stored the replica of worker 0. The successor of worker 1 has received this replica.
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
            deferred: vec![],
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

fn refusing(mut report: ProcessReport, worker: u32, at: u32) -> ProcessReport {
    report.damaged.push(DamagedReplica {
        worker: Worker(worker),
        at: ProcessNumber(at),
    });
    report
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
        [rebuild(0, 0, 1), rebuild(1, 0, 2), rebuild(3, 1, 1)]
    );
    // With one replica per worker, worker 1 is lost.
    let damaged = |died, buddies| PlanFailure::Copies {
        worker: Worker(1),
        died,
        buddies,
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

/// Hints of living, idle processes are followed; other hints and second hints are ignored.
///
/// For all hints, a plan contains each dead worker once, and each process at most once.
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
    // Hints that name a worker's process, a missing process, a dead one, an invalid number, or
    // workers that are not dead.
    assert_eq!(takeovers(&[(1, 0), (2, 99)]), by_rule);
    assert_eq!(takeovers(&[(1, 1), (2, u32::MAX)]), by_rule);
    assert_eq!(takeovers(&[(0, 6), (7, 5)]), by_rule);
    // Two hints name one process.
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
