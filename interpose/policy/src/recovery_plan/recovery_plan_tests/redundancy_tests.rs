//! Plans with several replicas of each worker, and with parity.

use super::{copies, fetch, joining, rebuild, refusing, with_replicas, worker};
use crate::recovery_plan::{PlanFailure, ProcessReport, SourceFailure, make_plan};
use crate::redundancy::Redundancy;
use understudy_numbers::{Epoch, Worker};
use understudy_settings::Scheme;

#[test]
fn with_two_copies_any_two_may_die_at_once() {
    for first in 0..5 {
        for second in first + 1..5u32 {
            let alive = (0..5u32).filter(|number| ![first, second].contains(number));
            let mut living: Vec<ProcessReport> =
                alive.map(|number| worker(number, number, 3)).collect();
            living.extend([joining(5), joining(6)]);
            let plan = make_plan(&living, &copies(5, 1, 2), 5, &[]).unwrap();
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
        make_plan(
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
        [rebuild(1, 0, 3), rebuild(2, 1, 0), rebuild(4, 0, 0)]
    );
    // Two members of a group are dead.
    let gone = |worker, buddies| PlanFailure::Copies {
        worker: Worker(worker),
        died: true,
        buddies,
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
    // Damaged data of a member cannot be used to restore another member.
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
    let living = [0, 1, 2, 3, 4].map(|number| refusing(worker(number, number, 5), 0, 2));
    assert_eq!(
        parity(&living).unwrap().rebuilds,
        [rebuild(0, 0, 2), rebuild(4, 1, 2)]
    );
}
