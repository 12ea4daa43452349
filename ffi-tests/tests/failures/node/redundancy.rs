//! Replicas are damaged or lost: another replica is used, or the loss is reported.
//!
//! Jobs have four workers and UNDERSTUDY_BUDDY_OFFSET=1: the replicas of worker 1 are at worker 2
//! and, with UNDERSTUDY_COPIES=2, at worker 3. With xor:2, workers 0 and 2 are one parity group,
//! and workers 1 and 3 the other.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Outcome, Verdicts, is_thorough, paths, variants};

fn job(case: &TestProgram, copies: &str, fault: &str) -> Job {
    case.job()
        .spares(3)
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .env("UNDERSTUDY_COPIES", copies)
        .fault(&format!("{fault}; pretend no-memfd"))
}

fn assert_survived(outcome: &Outcome, case: &TestProgram, workers: &[u32]) {
    outcome.assert_recovered_after(&native(case.job()), case.files, case.canonical, workers);
}

/// Fails unless the job was lost, with a line that has all of `words`.
fn assert_lost(outcome: &Outcome, words: &[&str]) {
    outcome.assert_status(75);
    outcome.assert_line(words);
    outcome.assert_nothing_left();
}

/// Number of reports of a damaged replica.
fn refusals(outcome: &Outcome) -> usize {
    outcome.stderr.matches("is not used: the ").count()
}

fn assert_refusals(outcome: &Outcome, count: usize) {
    let found = refusals(outcome);
    outcome.check(
        found == count,
        &format!("{found} damaged replicas were reported instead of {count}"),
    );
}

#[test]
fn a_damaged_copy_is_never_loaded() {
    let mut verdicts = Verdicts::default();
    for (case, copy) in variants([(programs::heat2d(), "held"), (programs::cg(), "state")], 1) {
        let fault = format!(
            "corrupt rank=2 at=commit.end epoch=3 copy={copy}; kill rank=1 at=cut.end epoch=4"
        );
        let outcome = job(&case, "1", &fault).run();
        verdicts.judge(&format!("{}: {fault}", case.name), || {
            assert_lost(
                &outcome,
                &[
                    "worker 1 (rank 1 on ",
                    "replica (checkpoint 3) at worker 2 (rank 2 on ",
                    "wrong checksum",
                ],
            );
            assert_refusals(&outcome, 1);
        });
        let outcome = job(&case, "2", &fault).run();
        verdicts.judge(&format!("{}, two copies: {fault}", case.name), || {
            assert_survived(&outcome, &case, &[1]);
            assert_refusals(&outcome, 1);
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_damaged_replica_is_rebuilt() {
    let case = programs::heat2d();
    // Rank 4 has replaced worker 1 when worker 1 fails a second time, together with worker 3, which
    // has the second replica. The replica at worker 2, which was damaged, must be whole again.
    let fault = "corrupt rank=2 at=commit.end epoch=3; kill rank=1 at=cut.end epoch=4; kill \
        rank=4 at=cut.begin epoch=6 delay=40ms; kill rank=3 at=cut.begin epoch=6 delay=40ms";
    let outcome = job(&case, "2", fault).interval("80calls").run();
    assert_survived(&outcome, &case, &[1, 1, 3]);
    assert_refusals(&outcome, 1);
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_disk_is_used_when_a_copy_is_damaged() {
    let case = programs::heat2d();
    let fault = "corrupt rank=2 at=commit.end epoch=9; kill rank=1 at=cut.end epoch=10";
    let outcome = job(&case, "1", fault).interval("80calls").disk().run();
    assert_survived(&outcome, &case, &[1]);
    assert_refusals(&outcome, 1);
    outcome.assert_line(&["wrong checksum", "on disk"]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_survivor_with_a_damaged_image_gets_its_replica_from_its_buddy() {
    let mut verdicts = Verdicts::default();
    for (case, rank) in [(programs::heat2d(), 3), (programs::cg(), 0)] {
        let fault = format!(
            "corrupt rank={rank} at=commit.end epoch=3 copy=own; kill rank=1 at=cut.end epoch=4"
        );
        let outcome = job(&case, "1", &fault).run();
        verdicts.judge(&format!("{}: {fault}", case.name), || {
            if rank == 0 {
                // The buddy of worker 0 is the failed worker 1.
                let words = [
                    "worker 0 (rank 0 on ",
                    "keeps of itself has a wrong checksum",
                    "worker 1 (rank 1 on ",
                ];
                assert_lost(&outcome, &words);
            } else {
                assert_survived(&outcome, &case, &[1]);
            }
            assert_refusals(&outcome, 1);
        });
    }
    verdicts.assert_all_good();
}

/// Fault that kills a rank at a fault point of a checkpoint.
fn death(rank: u32, point: &str, checkpoint: u64) -> String {
    format!("kill rank={rank} at={point} epoch={checkpoint}")
}

/// Faults that kill these ranks at a fault point of the third checkpoint.
///
/// The delay lets all of them reach the point before a failure is detected.
fn deaths(ranks: &[u32], point: &str) -> String {
    let delayed = |&rank: &u32| death(rank, point, 3) + " delay=40ms";
    ranks.iter().map(delayed).collect::<Vec<_>>().join("; ")
}

/// Kills two workers at a fault point; judges if the job survives with two replicas.
fn two_die(case: &TestProgram, [first, second]: [u32; 2], point: &str, verdicts: &mut Verdicts) {
    let fault = deaths(&[first, second], point);
    let outcome = job(case, "2", &fault).run();
    println!(
        "{}, {fault}: {:?}, died: {:?}",
        case.name,
        outcome.wall,
        outcome.faults()
    );
    // A fault point may follow a message of the first worker. The second worker then reaches the
    // point after the recovery, or never, because the recovery has committed the checkpoint.
    let both = [first.min(second), first.max(second)];
    let died = outcome.faults();
    let is_certain = point == "cut.begin";
    let mut workers = outcome.takeovers();
    workers.sort_unstable();
    verdicts.judge(&format!("{}: {fault}", case.name), || {
        outcome.check(
            !died.is_empty() && workers == died && (died == both || !is_certain),
            &format!("workers replaced: {workers:?}, killed: {died:?}"),
        );
        assert_survived(&outcome, case, &outcome.takeovers());
    });
}

#[test]
fn with_two_copies_a_rank_and_one_of_its_buddies_may_die_at_once() {
    let mut verdicts = Verdicts::default();
    let points = [
        "ship.begin",
        "commit.begin",
        "cut.begin",
        "capture.end",
        "ship.end",
        "commit.end",
    ];
    for (index, point) in variants(points, 1).enumerate() {
        let worker = index as u32 % 4;
        // The worker fails together with its first buddy, or with its second buddy.
        let (case, further) = match index % 2 {
            0 => (programs::heat2d(), 1 + index as u32 / 2 % 2),
            _ => (programs::cg(), 2 - index as u32 / 2 % 2),
        };
        two_die(
            &case,
            [worker, (worker + further) % 4],
            point,
            &mut verdicts,
        );
    }
    for workers in variants([[1, 2], [0, 2]], 1) {
        two_die(
            &programs::large_heat2d(),
            workers,
            "ship.half",
            &mut verdicts,
        );
    }
    verdicts.assert_all_good();
}

#[test]
fn three_at_once_are_a_loss_that_names_all_copies() {
    let case = programs::heat2d();
    let outcome = job(&case, "2", &deaths(&[1, 2, 3], "cut.begin")).run();
    assert_lost(
        &outcome,
        &[
            "worker 1 (rank 1 on ",
            "failed together with worker 2 (rank 2 on ",
            " and worker 3 (rank 3 on ",
            "only replicas (checkpoint 2)",
        ],
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn both_replicas_are_rebuilt_after_a_recovery() {
    let mut verdicts = Verdicts::default();
    let case = programs::heat2d();
    // After the first recovery, rank 4 is worker 1, which stores the first replica of worker 0 and
    // the second replica of worker 3. Worker 0 or 3 then fails together with its other buddy.
    for (dead, buddy) in [(0, 2), (3, 0)] {
        let fault = format!(
            "kill rank=1 at=cut.end epoch=3; kill rank={dead} at=cut.begin epoch=5 delay=40ms; \
             kill rank={buddy} at=cut.begin epoch=5 delay=40ms"
        );
        let outcome = job(&case, "2", &fault).interval("80calls").run();
        let mut second = [dead, buddy];
        second.sort_unstable();
        verdicts.judge(&fault, || {
            assert_survived(&outcome, &case, &[1, second[0], second[1]])
        });
    }
    verdicts.assert_all_good();
}

/// Worker 1, the buddy of worker 0, is lost with all replicas.
///
/// The checkpoint after the recovery sends the replica of worker 0 to the new process. Once that
/// checkpoint is committed, worker 0 can fail. Before, its failure ends the job.
#[test]
fn a_lost_replica_is_sent_with_the_next_checkpoint() {
    let case = programs::short_heat2d();
    let worker_0_dies_at = |point| {
        let faults = [death(1, "commit.end", 3), death(0, point, 4)].join("; ");
        job(&case, "1", &faults).interval("50ms").run()
    };
    assert_survived(&worker_0_dies_at("commit.end"), &case, &[1, 0]);
    let lost = worker_0_dies_at("ship.begin");
    assert_lost(
        &lost,
        &["worker 0 (rank 0 on", "had not yet received its replica"],
    );
}

/// Returns a job with faults whose ranks map and unmap memory, and the undisturbed job.
fn mappings(scheme: &str, fault: &str) -> (Job, Job) {
    let job = || Job::new(paths::test_program("mappings"), &["240", "1000"]).interval("20calls");
    let disturbed = job()
        .spares(3)
        .env("UNDERSTUDY_COPIES", scheme)
        .fault(fault);
    (disturbed, job())
}

#[test]
#[ignore = "a variant: make test-all"]
fn memory_that_is_mapped_and_unmapped_survives_under_every_scheme() {
    let mut verdicts = Verdicts::default();
    let schemes = ["1", "2", "xor:2", "xor:3", "xor:4"];
    for (index, scheme) in schemes.iter().enumerate() {
        let first = index as u32 % 4;
        let second = (first + 1) % 4;
        let fault = format!(
            "kill rank={first} at=cut.end epoch=5; kill rank={second} at=commit.end epoch=8"
        );
        let (job, undisturbed) = mappings(scheme, &fault);
        let outcome = job.run();
        verdicts.judge(&format!("{scheme}: {fault}"), || {
            outcome.assert_recovered(&native(undisturbed), &[], &[first, second]);
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn with_parity_any_worker_may_die_at_any_point_of_a_checkpoint() {
    let mut verdicts = Verdicts::default();
    let points = [
        "cut.end",
        "capture.end",
        "ship.begin",
        "ship.half",
        "ship.end",
        "commit.begin",
        "commit.end",
    ];
    for (index, point) in points.iter().enumerate() {
        let case = match (*point, index % 2) {
            ("ship.half", _) => programs::large_heat2d(),
            (_, 0) => programs::heat2d(),
            _ => programs::cg(),
        };
        for (scheme, worker) in [
            ("xor:4", index as u32 % 4),
            ("xor:2", (index as u32 + 2) % 4),
        ] {
            let fault = format!("kill rank={worker} at={point} epoch=3");
            let outcome = job(&case, scheme, &fault).run();
            println!("{}, {scheme}, {fault}: {:?}", case.name, outcome.wall);
            verdicts.judge(&format!("{}, {scheme}: {fault}", case.name), || {
                assert_survived(&outcome, &case, &[worker]);
            });
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn with_parity_one_of_each_group_may_die_at_once_and_another_later() {
    let mut verdicts = Verdicts::default();
    let case = programs::heat2d();
    // The parity that rank 4 has rebuilt after it replaced worker 0 restores worker 2.
    let later = "; kill rank=2 at=cut.end epoch=5";
    let fault = deaths(&[0, 1], "cut.begin") + later;
    let outcome = job(&case, "xor:2", &fault).interval("80calls").run();
    verdicts.judge(&fault, || assert_survived(&outcome, &case, &[0, 1, 2]));
    if !is_thorough() {
        return verdicts.assert_all_good();
    }
    // An odd number of workers, with groups of 3 and 2.
    let fault = format!("{}{later}", deaths(&[1, 4], "cut.begin"));
    let five = |job: Job| job.workers(5).interval("80calls");
    let outcome = five(job(&case, "xor:3", &fault)).run();
    verdicts.judge(&format!("five workers: {fault}"), || {
        outcome.assert_recovered(&native(five(case.job())), case.files, &[1, 4, 2]);
    });
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn with_parity_a_second_process_may_die_during_the_recovery() {
    let mut verdicts = Verdicts::default();
    let case = programs::cg();
    // The replacement fails at the end of a stage, or another member of the group fails when the
    // lost parity has been rebuilt.
    for (rank, point) in [(4, "fetch"), (4, "load"), (4, "reprotect"), (3, "resume")] {
        let fault = format!("kill rank=1 at=cut.end epoch=3; kill rank={rank} at={point}");
        let outcome = job(&case, "xor:4", &fault).run();
        verdicts.judge(&fault, || {
            outcome.assert_success();
            outcome.assert_like_after(&native(case.job()), case.files, case.canonical);
            outcome.check(outcome.faults().len() == 2, "no other process failed");
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn with_parity_two_of_a_group_are_a_loss_and_so_is_damage_that_is_needed() {
    let mut verdicts = Verdicts::default();
    let case = programs::heat2d();
    let group = "of its parity group, which can restore only one of its workers (checkpoint 2)";
    let damage = "the replica that its parity group rebuilds (checkpoint 3) has a wrong checksum";
    let damaged = "corrupt rank=2 at=commit.end epoch=3; kill rank=1 at=cut.end epoch=4".to_owned();
    // The next worker in the group, worker 3, stores the data of worker 1 that are not in pages.
    let description =
        "corrupt rank=3 at=commit.end epoch=3 copy=state; kill rank=1 at=cut.end epoch=4"
            .to_owned();
    let losses = [
        (
            "xor:2",
            deaths(&[0, 2], "cut.begin"),
            ["worker 0 (rank 0 on ", "worker 2 (rank 2 on ", group],
        ),
        (
            "xor:2",
            description,
            ["worker 1 (rank 1 on ", ") failed", damage],
        ),
        (
            "xor:4",
            deaths(&[1, 2], "cut.begin"),
            ["worker 1 (rank 1 on ", "worker 2 (rank 2 on ", group],
        ),
        (
            "xor:4",
            damaged.clone(),
            ["worker 1 (rank 1 on ", ") failed", damage],
        ),
    ];
    for (scheme, fault, words) in variants(losses, 1) {
        let outcome = job(&case, scheme, &fault).run();
        verdicts.judge(&format!("{scheme}: {fault}"), || {
            assert_lost(&outcome, &words)
        });
    }
    if !is_thorough() {
        return verdicts.assert_all_good();
    }
    let disk = job(
        &case,
        "xor:4",
        &damaged.replace("=3", "=9").replace("=4", "=10"),
    );
    let outcome = disk.interval("80calls").disk().run();
    verdicts.judge("xor:4 with a disk", || {
        assert_survived(&outcome, &case, &[1])
    });
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn with_parity_a_damaged_image_is_rebuilt_from_the_group() {
    let case = programs::heat2d();
    // Groups of 0 and 2, 1 and 3: the damage is in the group without a failure.
    let fault = "corrupt rank=2 at=commit.end epoch=3 copy=own; kill rank=1 at=cut.end epoch=4";
    let outcome = job(&case, "xor:2", fault).run();
    assert_survived(&outcome, &case, &[1]);
    assert_refusals(&outcome, 1);
}
