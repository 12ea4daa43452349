//! Several failures, failures of spares, and failures that cannot be recovered.
//!
//! A job never hangs and has no wrong result: it recovers, restarts, or ends with a line that gives
//! the cause.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, paths, variants};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Fails unless the job ended by itself with an error, and reported all `words`.
#[track_caller]
fn assert_ended(outcome: &Outcome, words: &[&str]) {
    outcome.assert_failed();
    let is_reported = |word: &&str| outcome.own_lines().iter().any(|line| line.contains(*word));
    let missing: Vec<&&str> = words.iter().filter(|word| !is_reported(word)).collect();
    outcome.check(
        missing.is_empty(),
        &format!("no line of understudy has {missing:?}"),
    );
    outcome.assert_nothing_left();
}

/// Fails unless the job recovered with equal output and these workers were replaced.
#[track_caller]
fn assert_survived(outcome: &Outcome, workers: &[u32]) {
    let case = heat2d();
    outcome.assert_recovered(&native(case.job()), case.files, workers);
}

fn job() -> Job {
    heat2d().job()
}

#[test]
fn two_workers_that_die_at_once_are_both_replaced() {
    let (case, lines) = (heat2d(), Trigger::Lines(15));
    // With two spares on one node, the buddy of rank r is r + 2, so neighbours may fail together.
    let outcome = job()
        .spares(2)
        .kill(Kill::at(1, lines))
        .kill(Kill::at(2, lines))
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_replaced(&[1, 2]);
    outcome.assert_nothing_left();
}

#[test]
fn the_death_of_an_idle_spare_changes_nothing() {
    let case = heat2d();
    let outcome = job().kill(Kill::at(4, Trigger::Lines(10))).run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.check(outcome.takeovers().is_empty(), "a worker was replaced");
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_second_spare_replaces_a_worker_after_the_first_has_died_idle() {
    let case = heat2d();
    let outcome = job()
        .spares(2)
        .kill(Kill::at(4, Trigger::Lines(8)))
        .kill(Kill::at(2, Trigger::Lines(20)))
        .run();
    outcome.assert_recovered(&native(case.job()), case.files, &[2]);
}

#[test]
fn a_replacement_that_fails_is_replaced() {
    let case = heat2d();
    let outcome = job()
        .spares(2)
        .kill(Kill::at(3, Trigger::Lines(8)))
        .kill(
            Kill::at(
                4,
                Trigger::Resume {
                    rank: 4,
                    recovery: 1,
                },
            )
            .after(Duration::from_millis(50)),
        )
        .run();
    outcome.assert_recovered(&native(case.job()), case.files, &[3, 3]);
}

#[test]
fn without_a_spare_left_a_new_process_replaces_a_worker() {
    let outcome = job()
        .kill(Kill::at(1, Trigger::Lines(8)))
        .kill(Kill::at(3, Trigger::Lines(25)))
        .run();
    assert_survived(&outcome, &[1, 3]);
}

#[test]
fn a_worker_that_fails_with_its_only_replica_ends_the_job() {
    // Offset 1: worker 2 stores the replica of worker 1.
    let (job, lines) = (
        job().spares(2).env("UNDERSTUDY_BUDDY_OFFSET", "1"),
        Trigger::Lines(15),
    );
    let job = job.fault("pretend no-memfd");
    let outcome = job.kill(Kill::at(1, lines)).kill(Kill::at(2, lines)).run();
    assert_ended(
        &outcome,
        &[
            "worker 1 (rank 1 on",
            "failed together with worker 2 (rank 2 on",
            "which stored its only replica",
        ],
    );
}

/// All workers are killed at once, and no replica outlives its process.
///
/// The job ends although spares are left, which have no data of the job. With a disk level, a
/// restart completes the job.
#[test]
fn when_all_workers_fail_without_replicas_the_job_can_resume_from_disk() {
    let case = heat2d();
    let kill_all = |job: Job, at| {
        let at_once = |job: Job, worker| job.kill(Kill::at(worker, at));
        (0..4).fold(job.fault("pretend no-memfd"), at_once).run()
    };
    let lost = kill_all(job().spares(2).interval("40calls"), Trigger::Lines(15));
    assert_ended(
        &lost,
        &[
            "the job cannot be recovered: all workers failed, and all replicas are lost with them; \
             start the job again",
        ],
    );
    let on_disk = || job().spares(2).interval("40calls").disk();
    let at = Trigger::OnDisk {
        workers: 4,
        epoch: 2,
    };
    let mut lost = kill_all(on_disk(), at);
    assert_ended(&lost, &["all workers failed"]);
    let saved = on_disk()
        .env("UNDERSTUDY_RESTART", "1")
        .run_after(&mut lost);
    saved.assert_success();
    for name in case.files {
        saved.check(
            saved.file(name) == native(case.job()).file(name),
            &format!("{name} differs"),
        );
    }
    saved.assert_nothing_left();
}

/// Kills worker 2 in MPI_Init or before; fails unless the job recovers or restarts.
fn die_in_init(at: Trigger, delays_ms: &[u64]) {
    let mut verdicts = Verdicts::default();
    for &delay in variants(delays_ms, 1) {
        let outcome = job()
            .kill(Kill::at(2, at).after(Duration::from_millis(delay)))
            .run();
        let status = outcome.status;
        println!(
            "{delay} ms after {at:?}: {status:?} {:?} {:?}",
            outcome.wall,
            outcome.own_lines()
        );
        verdicts.judge(&format!("{delay} ms after {at:?}"), || {
            // After a failure before the first checkpoint, the job has restarted.
            let replaced: &[u32] = if outcome.takeovers().is_empty() {
                &[]
            } else {
                &[2]
            };
            assert_survived(&outcome, replaced);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_may_die_inside_our_part_of_mpi_init() {
    die_in_init(Trigger::Started { rank: 2 }, &[0, 3, 1, 10]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_die_inside_the_real_mpi_init() {
    die_in_init(Trigger::Launched, &[0, 10, 20]);
}

#[test]
fn a_process_may_die_before_mpi_init() {
    let mut verdicts = Verdicts::default();
    let faults = [
        "kill rank=1 at=boot.begin",
        "kill spare=0 at=init.begin",
        "kill rank=0 at=boot.end",
        "kill rank=3 at=init.begin",
    ];
    for fault in variants(faults, 1) {
        let outcome = job().fault(fault).run();
        // The job restarts by itself.
        verdicts.judge(fault, || assert_survived(&outcome, &[]));
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn checkpoints_may_be_counted_in_calls() {
    let case = heat2d();
    let outcome = job()
        .interval("40calls")
        .kill(Kill::at(1, Trigger::Lines(20)))
        .run();
    outcome.assert_recovered(&native(case.job()), case.files, &[1]);
    outcome.check(
        outcome.last_epoch(0) >= 20,
        "1200 collectives are 30 checkpoints",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_exit_status_of_the_program_is_that_of_the_job() {
    // The program itself refuses the shape of the plate, after MPI_Finalize.
    let refused = || Job::new(paths::example("heat2d"), &["1", "1", "10"]);
    let (with, without) = (refused().run(), refused().native().run());
    let status = |outcome: &Outcome| outcome.status.and_then(|status| status.code());
    with.check(status(&with).is_some(), "the job hangs");
    with.check(
        status(&with) == status(&without),
        &format!("the native run ends with {:?}", status(&without)),
    );
    let message = |outcome: &Outcome| {
        outcome
            .stderr
            .lines()
            .filter(|line| line.starts_with("heat2d:"))
            .count()
    };
    with.check(
        message(&with) == message(&without),
        "the program's message is missing or repeated",
    );
    with.assert_nothing_left();
}

#[test]
fn six_failures_in_one_run_are_survived() {
    let case = heat2d();
    // The first four are the initial ranks, the others the replacements of the first two.
    let deaths: Vec<String> = (0..6)
        .map(|rank| format!("kill rank={rank} at=cut.begin epoch={}", 2 + 2 * rank))
        .collect();
    let outcome = job()
        .spares(6)
        .interval("60calls")
        .fault(&deaths.join(";"))
        .run();
    outcome.assert_recovered(&native(case.job()), case.files, &[0, 1, 2, 3, 0, 1]);
}

/// Memory of a process that counts for RLIMIT_DATA, in KiB.
fn data_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))?;
    line.trim_end_matches("kB").trim().parse().ok()
}

/// Makes a job on two hosts with a limit of data (`ulimit -d`) for rank 1.
///
/// `limit` is a number of KiB, or `unlimited`.
fn with_memory(limit: &str) -> Job {
    const LIMITED: &str =
        r#"limit=$1; shift; [ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -d "$limit"; exec "$@""#;
    let program = paths::example("heat2d");
    let program = program.to_str().expect("a path in UTF-8");
    let arguments = [
        "-c",
        LIMITED,
        "sh",
        limit,
        program,
        // More memory than understudy reserves, which a limit must permit.
        "7000",
        "7000",
        "20",
        "heat.field",
    ];
    let job = Job::new("/bin/sh", &arguments)
        .interval("10calls")
        .hosts(&[2, 3]);
    // Replicas in a file in memory do not count as data.
    let job = job.fault("pretend no-memfd");
    job.env("UNDERSTUDY_COPIES", "xor:2")
}

/// A worker cannot get memory for replicas and ends the job, on both hosts.
///
/// The worker is within a transfer, in which processes of the other host take part.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_without_memory_for_copies_ends_the_job_on_all_hosts() {
    if !Hosts::are_possible() {
        return;
    }
    let most = Rc::new(Cell::new(0));
    let seen = Rc::clone(&most);
    let mut grew = Instant::now();
    // The ranks wait in MPI_Finalize until their data has not grown for two seconds.
    let enough = with_memory("unlimited").watch(move |ranks| {
        let data = ranks.get(&1).and_then(|rank| data_of(rank.pid));
        if data.is_some_and(|data| data > seen.get()) {
            seen.set(data.unwrap_or(0));
            grew = Instant::now();
        }
        grew.elapsed() > Duration::from_secs(2)
    });
    enough.run().assert_success();
    // Space for replicas grows in steps of 64 MiB: half of the last step is missing.
    let outcome = with_memory(&(most.get() - (32 << 10)).to_string()).run();
    assert_ended(&outcome, &["more bytes of the page store"]);
    outcome.check(outcome.takeovers().is_empty(), "a worker was replaced");
}

#[test]
fn a_limit_of_file_size_or_time_that_ends_a_process_is_named() {
    let limits = [
        ("file", "its limit of file size (SIGXFSZ, `ulimit -f`)"),
        ("time", "its limit of CPU time (SIGXCPU, `ulimit -t`)"),
    ];
    for (what, limit) in variants(limits, 1) {
        let outcome = Job::new(paths::test_program("exceeds"), &[what]).run();
        assert_ended(
            &outcome,
            &[limit, "before the first checkpoint; raise the limit"],
        );
        outcome.check(outcome.stdout.is_empty(), "the program has continued");
    }
}
