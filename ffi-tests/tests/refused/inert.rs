//! Understudy does not affect processes that are not ranks of an MPI job.
//!
//! Undisturbed jobs are affected little: they get no message and leave nothing behind.

use ffi_tests::plain_commands::{assert_indifferent, run};
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Launcher, native_runs::native, paths};

#[test]
fn ordinary_programs_do_not_notice_understudy() {
    assert_indifferent("ls", &["-l", "/proc/self/exe", "/etc/passwd"], &[]);
    assert_indifferent("ls", &["/nowhere"], &[]);
    assert_indifferent(
        "sh",
        &[
            "-c",
            "echo one; (exit 3) || echo $?; printf '%s\\n' two | cat; exit 7",
        ],
        &[],
    );
    assert_indifferent("sh", &["-c", "kill -TERM $$"], &[]);
    assert_indifferent(
        "python3",
        &[
            "-c",
            "import sys, json, threading; print(json.dumps([1, 2]), file=sys.stderr); sys.exit(4)",
        ],
        &[],
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_environment_of_other_programs_is_not_touched() {
    let variables = [("UNDERSTUDY_SPARES", "2"), ("UNDERSTUDY_INTERVAL", "soon")];
    let output = run("env", &[], &variables, true);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = [
        format!("LD_PRELOAD={}", paths::preload_library().display()),
        "UNDERSTUDY_SPARES=2".into(),
        "UNDERSTUDY_INTERVAL=soon".into(),
    ];
    for line in expected {
        assert!(
            text.lines().any(|other| other == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(
        !text.contains("UNDERSTUDY_BOOT") && !text.contains("UNDERSTUDY_PAD"),
        "{text}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_mpi_program_without_mpirun_runs_normally() {
    let chatter = paths::test_program("chatter");
    let chatter = chatter.to_string_lossy();
    assert_indifferent(&chatter, &["20"], &[]);
    assert_indifferent(&chatter, &["20"], &[("UNDERSTUDY_REQUIRE", "1")]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn understudy_disable_gives_the_program_all_ranks() {
    let job = || Job::new(paths::test_program("chatter"), &["30"]).workers(5);
    let undisturbed = native(job());
    // Without UNDERSTUDY_DISABLE, one of the five ranks would be a spare.
    let outcome = job()
        .workers(4)
        .spares(1)
        .env("UNDERSTUDY_DISABLE", "1")
        .run();
    if paths::launcher() == Launcher::Ckptd {
        // `ckptd launch` stops the job: without understudy, each process would be a job of its own.
        outcome.check(outcome.stdout.is_empty(), "the program has run");
        outcome.check(outcome.own_lines().len() == 1, "not one line of understudy");
        return;
    }
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    outcome.assert_nothing_left();
    assert_eq!(outcome.own_lines(), Vec::<&str>::new());
    assert_eq!(outcome.event_ranks(), Vec::<u32>::new());
}

#[test]
fn a_run_without_a_failure_is_silent_and_leaves_nothing_behind() {
    let case = heat2d();
    let undisturbed = native(case.job());
    let outcome = case.job().run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, case.files);
    outcome.assert_nothing_left();
    outcome.check(
        outcome.own_lines().len() <= 1,
        "more than one line of understudy",
    );
    outcome.check(outcome.last_epoch(0) >= 3, "fewer than three checkpoints");
    outcome.check(outcome.takeovers().is_empty(), "a worker was replaced");
}
