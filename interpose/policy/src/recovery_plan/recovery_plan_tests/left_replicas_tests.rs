//! Plans with processes that have the replicas of dead workers.

use super::{fetch, joining, lost_worker, make, takeover, whole, with_replicas, worker};
use crate::recovery_plan::{PlanFailure, ProcessReport, Takeover, make_plan};
use crate::redundancy::Redundancy;
use understudy_numbers::{Epoch, ProcessNumber};
use understudy_settings::Scheme;

/// Creates the report of a joining process that has all replicas of a dead worker.
///
/// The replicas are of `epoch`, and of the later epoch `whole` unless that is 0.
fn left_by(process: u32, own: u32, epoch: u64, whole: u64) -> ProcessReport {
    let mut report = with_replicas(process, own, 1, epoch);
    if let Some(kept) = &mut report.kept {
        (kept.whole, kept.whole_layers) = ((whole != 0).then_some(Epoch(whole)), 1);
        kept.process = Some(ProcessNumber(own));
    }
    report
}

#[test]
fn left_replicas_need_no_other_process() {
    let has_all = |worker, process| Takeover {
        has_own: true,
        layers: 1,
        ..takeover(worker, process)
    };
    // In the first case a worker dies with its buddy, in the second case all workers die.
    let living = [
        worker(0, 0, 3),
        worker(3, 3, 3),
        left_by(4, 1, 3, 0),
        left_by(5, 2, 3, 0),
    ];
    let plan = make(&living, 4, 1).unwrap();
    assert_eq!(plan.takeovers, [has_all(1, 4), has_all(2, 5)]);
    assert_eq!((plan.fetches, plan.rebuilds), (vec![], vec![]));
    let plan = make(&[left_by(2, 1, 3, 0), left_by(3, 0, 3, 0)], 2, 1).unwrap();
    assert_eq!(plan.takeovers, [has_all(0, 3), has_all(1, 2)]);
    assert_eq!(plan.epoch, Epoch(3));
    // A single worker has no buddy.
    let alone = Redundancy::place(&[0], 1, Scheme::Copies(0));
    assert_eq!(
        make_plan(&[left_by(1, 0, 3, 0)], &alone, 1, &[])
            .unwrap()
            .takeovers
            .len(),
        1
    );
    let lost = make_plan(&[joining(1)], &alone, 1, &[]);
    assert_eq!(lost, Err(PlanFailure::Everyone));
}

#[test]
fn left_replicas_show_the_epoch_that_was_under_way() {
    let epoch = |living: &[ProcessReport]| make(living, 3, 1).map(|plan| plan.epoch.0);
    // One process has seen the commit.
    assert_eq!(
        epoch(&[
            left_by(3, 0, 4, 0),
            left_by(4, 1, 3, 4),
            left_by(5, 2, 3, 4)
        ]),
        Ok(4)
    );
    assert_eq!(
        epoch(&[worker(0, 0, 4), left_by(4, 1, 3, 4), worker(2, 2, 4)]),
        Ok(4)
    );
    // The epoch may be committed: all processes have complete replicas.
    assert_eq!(
        epoch(&[
            left_by(3, 0, 3, 4),
            left_by(4, 1, 3, 4),
            left_by(5, 2, 3, 4)
        ]),
        Ok(4)
    );
    assert_eq!(
        epoch(&[
            whole(worker(0, 0, 3), 4),
            left_by(4, 1, 3, 4),
            whole(worker(2, 2, 3), 4)
        ]),
        Ok(4)
    );
    // The epoch was not committed: a living worker has not finished it.
    assert_eq!(
        epoch(&[worker(0, 0, 3), left_by(4, 1, 3, 4), left_by(5, 2, 3, 4)]),
        Ok(3)
    );
    // The epoch was not committed: worker 1 had no complete replicas of it.
    assert_eq!(
        epoch(&[
            whole(worker(0, 0, 3), 4),
            left_by(4, 1, 3, 0),
            left_by(5, 2, 3, 0)
        ]),
        Ok(3)
    );
    // The first epoch was complete in all processes, and no record shows its commit.
    assert_eq!(
        epoch(&[
            left_by(3, 0, 0, 1),
            left_by(4, 1, 0, 1),
            left_by(5, 2, 0, 1)
        ]),
        Ok(1)
    );
    assert_eq!(
        epoch(&[
            left_by(3, 0, 0, 1),
            left_by(4, 1, 0, 0),
            left_by(5, 2, 0, 0)
        ]),
        Err(PlanFailure::Init)
    );
    // Worker 1's replica comes from the successor of its buddy.
    let plan = make(
        &[
            whole(worker(0, 0, 3), 4),
            left_by(4, 1, 3, 0),
            left_by(5, 2, 3, 4),
        ],
        3,
        1,
    )
    .unwrap();
    assert_eq!((plan.epoch, plan.fetches), (Epoch(4), vec![fetch(1, 2)]));
}

#[test]
fn the_cheaper_epoch_is_chosen_if_the_later_one_cannot_be_committed() {
    let costs = |report: ProcessReport, lost_ns, fetch_ns| ProcessReport {
        lost_ns,
        fetch_ns,
        ..report
    };
    let living = |lost, fetch| costs(whole(worker(0, 0, 3), 4), lost, fetch);
    let other = costs(whole(worker(2, 2, 3), 4), 10, 100);
    let epoch = |living: &[ProcessReport]| {
        make(living, 3, 1).map(|plan| (plan.epoch.0, plan.fetches.len()))
    };
    assert_eq!(
        epoch(&[living(99, 80), left_by(4, 1, 3, 0), other.clone()]),
        Ok((3, 0))
    );
    assert_eq!(
        epoch(&[living(100, 80), left_by(4, 1, 3, 0), other.clone()]),
        Ok((4, 1))
    );
    assert_eq!(
        epoch(&[living(0, 0), left_by(4, 1, 3, 0), whole(worker(2, 2, 3), 4)]),
        Ok((4, 1))
    );
    // Worker 1 may have entered the vote and seen the commit.
    assert_eq!(
        epoch(&[living(0, 80), left_by(4, 1, 3, 4), other.clone()]),
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
        epoch(&[living(0, 80), left_by(4, 1, 3, 4), left_by(5, 2, 3, 0)]),
        Ok((3, 0))
    );
    // A living process may need what worker 1 has stored for it.
    let reduced = |lost| ProcessReport {
        is_reduced: true,
        ..living(lost, 80)
    };
    assert_eq!(
        epoch(&[reduced(100), left_by(4, 1, 3, 0), other.clone()]),
        Ok((3, 0))
    );
    assert_eq!(
        epoch(&[reduced(0), left_by(4, 1, 3, 4), other.clone()]),
        Ok((4, 0))
    );
    assert_eq!(epoch(&[reduced(0), joining(4), other.clone()]), Ok((4, 1)));
    // No earlier epoch exists.
    let first = |report| costs(whole(report, 1), 0, 80);
    assert_eq!(
        epoch(&[
            first(worker(0, 0, 0)),
            left_by(4, 1, 0, 0),
            first(worker(2, 2, 0))
        ]),
        Ok((1, 1))
    );
}

#[test]
fn a_process_without_a_complete_own_replica_has_those_of_its_buddies() {
    let without_own = |mut report: ProcessReport| {
        report.kept.as_mut().unwrap().has_own = false;
        report
    };
    let living = [
        worker(0, 0, 3),
        without_own(left_by(4, 1, 3, 0)),
        worker(2, 2, 3),
    ];
    let plan = make(&living, 3, 1).unwrap();
    let has_partners = Takeover {
        layers: 1,
        ..takeover(1, 4)
    };
    assert_eq!(
        (plan.takeovers, plan.fetches),
        (vec![has_partners], vec![fetch(1, 2)])
    );
    assert_eq!(plan.rebuilds, []);
    // No other process has worker 1's replica.
    let living = [
        worker(0, 0, 3),
        without_own(left_by(4, 1, 3, 0)),
        joining(5),
    ];
    assert_eq!(lost_worker(&living, 3), Some(1));
}

#[test]
fn an_epoch_that_only_the_dead_have_selected_is_given_up_if_its_replicas_are_lost() {
    // Worker 0 has committed checkpoint 4 in an attempt that failed, and has left its replicas.
    // Worker 1 has left replicas of checkpoint 3 only, and its buddy, worker 2, is lost.
    let living = [
        whole(worker(3, 3, 3), 4),
        whole(worker(4, 4, 3), 4),
        left_by(5, 0, 4, 0),
        left_by(6, 1, 3, 0),
        joining(7),
    ];
    let redundancy = Redundancy::place(&[0; 5], 1, Scheme::Copies(1));
    let plan = make_plan(&living, &redundancy, 5, &[]).unwrap();
    assert_eq!(plan.epoch, Epoch(3));
    // A living worker that has selected checkpoint 4 has no replica of checkpoint 3 any more.
    let selected = [
        worker(3, 3, 4),
        living[1].clone(),
        left_by(5, 0, 4, 0),
        left_by(6, 1, 3, 0),
        joining(7),
    ];
    let lost = make_plan(&selected, &redundancy, 5, &[]);
    assert!(matches!(lost, Err(PlanFailure::Copies { .. })), "{lost:?}");
}

#[test]
fn an_epoch_that_was_given_up_stays_given_up() {
    // As in the previous test, but checkpoint 3 was selected already: some or all living workers
    // have discarded checkpoint 4, of which only a dead process has left replicas.
    let redundancy = Redundancy::place(&[0; 5], 1, Scheme::Copies(1));
    for undecided in [worker(4, 4, 3), whole(worker(4, 4, 3), 4)] {
        let living = [
            worker(3, 3, 3),
            undecided,
            left_by(5, 0, 4, 0),
            left_by(6, 1, 3, 0),
            joining(7),
        ];
        let plan = make_plan(&living, &redundancy, 5, &[]).unwrap();
        assert_eq!(plan.epoch, Epoch(3));
    }
}
