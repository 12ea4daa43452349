//! Plans that leave rebuilds to the next checkpoint.

use super::{copies, joining, rebuild, refusing, worker};
use crate::recovery_plan::{PlanFailure, ProcessReport, SourceFailure, make_plan};
use understudy_numbers::{Epoch, Worker};

fn deferring(report: ProcessReport) -> ProcessReport {
    ProcessReport {
        can_defer: true,
        ..report
    }
}

/// Report of worker 1, whose process lacks the replica of worker 0 at epoch 3.
fn lacking() -> ProcessReport {
    ProcessReport {
        lacking: 1,
        ..deferring(worker(4, 1, 3))
    }
}

#[test]
fn a_replica_of_a_dead_buddy_is_deferred_if_all_permit_it() {
    let mut living = [worker(0, 0, 3), worker(2, 2, 3), joining(3)].map(deferring);
    let plan = make_plan(&living, &copies(3, 1, 1), 3, &[]).unwrap();
    assert_eq!(
        (plan.rebuilds, plan.deferred),
        (vec![], vec![rebuild(0, 0, 1)])
    );
    living[1].can_defer = false;
    let plan = make_plan(&living, &copies(3, 1, 1), 3, &[]).unwrap();
    assert_eq!(
        (plan.rebuilds, plan.deferred),
        (vec![rebuild(0, 0, 1)], vec![])
    );
}

#[test]
fn a_damaged_replica_is_rebuilt_at_once() {
    let damaged = refusing(worker(1, 1, 3), 0, 1);
    let living = [worker(0, 0, 3), damaged].map(deferring);
    let plan = make_plan(&living, &copies(2, 1, 1), 2, &[]).unwrap();
    assert_eq!(
        (plan.rebuilds, plan.deferred),
        (vec![rebuild(0, 0, 1)], vec![])
    );
}

#[test]
fn a_buddy_has_no_deferred_replica_before_the_next_checkpoint() {
    let living = |buddy| [buddy, deferring(worker(2, 2, 3)), deferring(joining(5))];
    let lost = make_plan(&living(lacking()), &copies(3, 1, 1), 3, &[]).unwrap_err();
    let buddies = vec![(Worker(1), SourceFailure::Deferred)];
    assert_eq!(
        lost,
        PlanFailure::Copies {
            worker: Worker(0),
            died: true,
            buddies,
            epoch: Epoch(3),
        }
    );
    // Replicas of the next checkpoint are complete, but its commit was not seen.
    let complete = |report| ProcessReport {
        complete: Some(Epoch(4)),
        ..report
    };
    let living = living(lacking()).map(|report| match report.worker {
        Some(_) => complete(report),
        None => report,
    });
    let plan = make_plan(&living, &copies(3, 1, 1), 3, &[]).unwrap();
    assert_eq!(plan.epoch, Epoch(4));
    assert_eq!(plan.deferred, [rebuild(2, 0, 0)]);
}
