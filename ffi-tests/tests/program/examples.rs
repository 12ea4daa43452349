//! Example programs of other kinds than those that most tests run.
//!
//! With and without failures, the programs write equal bytes.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, paths, variants};
use understudy_formats::events::Kind;

/// Newton's method with a dense system of equations.
///
/// Panels and blocks are sent in the communicators of the rows and columns of a grid.
fn argtrig() -> Job {
    let arguments = ["48", "30", "x", "--block", "8", "--print-every", "2"];
    Job::new(paths::example("argtrig"), &arguments).interval("5calls")
}

#[track_caller]
fn assert_undisturbed(outcome: &Outcome, alone: Job, files: &[&str], killed: u32) {
    outcome.assert_success();
    outcome.assert_like(&native(alone), files);
    outcome.assert_taken_over(&[killed]);
    outcome.assert_nothing_left();
}

#[test]
fn a_dense_solver_recovers_from_any_failure() {
    let faults = [
        (1, "at=call:1000"),
        (2, "at=ship.half epoch=4"),
        (0, "at=call:2300"),
        (3, "at=commit.end epoch=6 delay=3ms"),
    ];
    for (rank, place) in variants(faults, 2) {
        let outcome = argtrig().fault(&format!("kill rank={rank} {place}")).run();
        assert_undisturbed(&outcome, argtrig(), &["x"], rank);
        // Seven checkpoints in 30 iterations: a rollback repeats five iterations at most.
        outcome.check(
            outcome.last_epoch((rank + 1) % 4) >= 7,
            "there were fewer checkpoints",
        );
    }
}

/// Jacobi iterations with the skeleton of supersteps.
///
/// The field equals that of a single loop, however the plate is distributed.
fn relax(way: &[&str]) -> Job {
    let arguments = [&["200", "200", "300", "field"], way].concat();
    Job::new(paths::example("relax"), &arguments).interval("20calls")
}

#[test]
fn a_skeleton_of_supersteps_recovers_with_any_distribution() {
    let ways = [
        (2, 1100, &["--by", "block", "--shift", "30"][..]),
        (1, 500, &["--pace", "1"]),
        (0, 900, &["--by", "block", "--pace", "2"]),
        (3, 1000, &[]),
    ];
    for (rank, call, way) in variants(ways, 2) {
        let outcome = relax(way)
            .fault(&format!("kill rank={rank} at=call:{call}"))
            .run();
        assert_undisturbed(&outcome, relax(&["--by-hand"]), &["field"], rank);
        outcome.check(
            outcome.last_epoch((rank + 1) % 4) >= 15,
            "there were fewer checkpoints",
        );
    }
}

/// Checkpoints contain one of the two arrays of the program.
///
/// A worker has 50 rows of its own and one or two rows of its neighbours in each array.
#[test]
fn the_array_of_the_last_superstep_is_in_no_checkpoint() {
    let outcome = relax(&[]).run();
    outcome.assert_success();
    let captured = outcome
        .events(1)
        .into_iter()
        .filter_map(|record| match record.kind {
            Kind::Capture { epoch, pages, .. } if epoch.0 > 2 => Some(pages),
            _ => None,
        });
    let (most, array) = (captured.max().unwrap_or(u64::MAX), 52 * 200 * 8 / 4096);
    outcome.check(
        (array..2 * array).contains(&most),
        &format!("{most} pages were captured, of two arrays of {array}"),
    );
}

/// Without the skeleton, `relax` has no checkpoint after that of MPI_Init.
#[test]
fn a_loop_without_collectives_has_one_checkpoint_unless_it_has_points() {
    let outcome = relax(&["--by-hand"]).run();
    outcome.assert_success();
    outcome.check(
        outcome.last_epoch(0) == 1,
        "there is more than one checkpoint",
    );
}

#[test]
fn rotating_data_are_in_place_after_a_recovery() {
    let ring = || Job::new(paths::example("ring"), &["120", "20", "product"]).interval("7calls");
    for (rank, call) in variants([(2, 150), (0, 240), (3, 100)], 1) {
        let outcome = ring()
            .fault(&format!("kill rank={rank} at=call:{call}"))
            .run();
        assert_undisturbed(&outcome, ring(), &["product"], rank);
        outcome.check(
            outcome.last_epoch((rank + 1) % 4) >= 11,
            "there were fewer checkpoints",
        );
    }
}
