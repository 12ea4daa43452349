//! Files that are opened and closed between two checkpoints equal those of an undisturbed run.
//!
//! The names of these files are equal, too.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Random, Trigger, Verdicts, paths, variants};
use std::time::Duration;

/// Number of steps; failures occur in the first half.
const STEPS: usize = 60;

fn files() -> Job {
    Job::new(paths::test_program("files"), &[&STEPS.to_string(), "10000"]).interval("0.05s")
}

#[test]
fn files_are_undisturbed_by_a_failure() {
    let undisturbed = native(files());
    let mut random = Random::announced("files");
    let mut verdicts = Verdicts::default();
    for worker in variants([2, 0, 1, 3], 1) {
        let lines = 1 + random.below(STEPS as u64 / 2) as usize;
        let kill = Kill::at(worker, Trigger::Lines(lines))
            .after(Duration::from_micros(random.below(5000)));
        let outcome = files().kill(kill).run();
        println!("{kill:?}: {:?}", outcome.wall);
        verdicts.judge(&format!("{kill:?}"), || {
            outcome.assert_recovered(&undisturbed, &[], &[worker]);
            outcome.assert_same_files(&undisturbed);
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn files_are_undisturbed_by_two_failures() {
    let undisturbed = native(files());
    let (first, second) = (
        Kill::at(1, Trigger::Lines(20)),
        Kill::at(2, Trigger::Lines(35)),
    );
    let outcome = files().spares(2).kill(first).kill(second).run();
    outcome.assert_recovered(&undisturbed, &[], &[1, 2]);
    outcome.assert_same_files(&undisturbed);
}

/// A worker appends to a file before late workers have restored the file.
///
/// All workers have the file open. No appended data are lost.
#[test]
fn a_file_that_several_ranks_have_open_may_grow_at_once() {
    let job = || Job::new(paths::test_program("appended"), &["12", "2"]).interval("7calls");
    let undisturbed = native(job());
    for epoch in variants([3, 4, 5, 6, 7, 8], 1) {
        // Delays a worker when it captures, and when it restores its files.
        let late = |rank| {
            format!(
                "wait rank={rank} at=capture.begin epoch={epoch} delay=300ms; wait rank={rank} \
                 at=load.begin delay=300ms"
            )
        };
        let fault = format!(
            "{}; {}; kill rank=2 at=cut.begin epoch={}",
            late(1),
            late(3),
            epoch + 1
        );
        let outcome = job().fault(&fault).run();
        outcome.assert_all_recovered(&undisturbed, &[2]);
    }
}

/// Worker 2 fails during a recovery; the second attempt restores the files correctly.
///
/// Two checkpoints could be loaded. Worker 2 computes and does not have the newer one completely,
/// so the first attempt agrees on the older one. Worker 2 fails at that moment. The first attempt
/// must not have undone effects on files yet, since the second one may choose another checkpoint.
#[test]
fn an_attempt_that_fails_has_undone_no_file_that_the_next_one_needs() {
    let job = || Job::new(paths::test_program("snapshots"), &["4", "400000"]).interval("1calls");
    let undisturbed = native(job());
    let fault = "wait rank=1 at=ship.begin epoch=3 delay=50ms; kill rank=0 at=commit.begin \
        epoch=3 delay=150ms; kill rank=2 at=agree.end";
    let outcome = job()
        .spares(2)
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .fault(fault)
        .run();
    outcome.assert_recovered(&undisturbed, &[], &[0, 2]);
    outcome.assert_same_files(&undisturbed);
}

/// Fails unless output and files are undisturbed when a worker is killed at a call.
fn assert_survived_in(job: impl Fn() -> Job, deaths: impl IntoIterator<Item = (u32, u32)>) {
    for (worker, call) in deaths {
        let fault = format!("kill rank={worker} at=call:{call}");
        let outcome = job().fault(&fault).run();
        outcome.assert_all_recovered(&native(job()), &[worker]);
    }
}

/// Each worker reads data that a neighbour on another host has written.
#[test]
fn overwritten_data_on_several_hosts_is_restored() {
    if !Hosts::are_possible() {
        return;
    }
    let job = || {
        let job = Job::new(paths::test_program("table/in_place"), &["24"]);
        job.interval("7calls").hosts(&[3, 3]).map_by("node")
    };
    assert_survived_in(job, variants([(2, 78), (0, 50), (1, 64), (3, 92)], 1));
}

/// The program gives a file a second name and removes its first name.
///
/// A recovery finds the open file by its second name.
#[test]
fn a_file_that_was_given_another_name_is_found_by_that() {
    let job = || {
        Job::new(paths::test_program("openings"), &["linked", "40"])
            .workers(2)
            .interval("5calls")
    };
    assert_survived_in(job, variants([(1, 22), (0, 9), (1, 14), (0, 31)], 1));
}

/// A worker fails while its output is redirected to a file, a pipe or /dev/null.
#[test]
fn redirected_output_is_restored() {
    let job = |interval| {
        move || {
            Job::new(paths::test_program("redirected"), &["40"])
                .workers(2)
                .interval(interval)
        }
    };
    assert_survived_in(
        job("5calls"),
        variants([(1, 15), (0, 16), (1, 17), (0, 20)], 1),
    );
    assert_survived_in(
        job("1calls"),
        variants((13..19).map(|call| (call % 2, call)), 1),
    );
}

#[test]
fn a_line_that_a_child_process_has_appended_is_there_once() {
    let job = || Job::new(paths::test_program("appends"), &["6"]).workers(2);
    for worker in variants([1, 0], 1) {
        let fault = format!("kill rank={worker} at=call:16");
        let outcome = job().interval("1000s").fault(&fault).run();
        outcome.assert_all_recovered(&native(job()), &[worker]);
        let is_about_children = |line: &&str| line.contains("child process");
        let count = outcome
            .own_lines()
            .into_iter()
            .filter(is_about_children)
            .count();
        outcome.check(count == 0, "there is a warning about child processes");
    }
}

/// The program starts a command without LD_PRELOAD in its environment; one line names the command.
#[test]
fn a_child_process_without_the_preload_library_is_named() {
    let job = || Job::new(paths::test_program("appends"), &["6"]).workers(2);
    let outcome = job().env("APPENDS_BY", "env -i").run();
    outcome.assert_success();
    let is_about_command =
        |line: &&str| line.contains("/sh, into which understudy is not preloaded");
    let count = outcome
        .own_lines()
        .into_iter()
        .filter(is_about_command)
        .count();
    outcome.check(count == 1, "the command is not named once");
    outcome.assert_nothing_left();
}
