//! Exits that the program itself causes.
//!
//! The job ends in time with the right status, and a line states the cause. A bug never uses up all
//! spares.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, Requirement, Verdicts, paths, skip, variants};

/// Value of `understudy_catalogue::exit_status::PROGRAM_FAILURE`, as documented in the guide.
const PROGRAM_FAILURE: i32 = 65;
const SPARES: u32 = 4;

/// Makes a job whose checkpoints are at the same steps in every run.
fn job(arguments: &[&str]) -> Job {
    Job::new(paths::test_program("endings"), arguments)
        .spares(SPARES)
        .interval("14calls")
}

/// Runs the jobs of three rows at a time; returns each row with its outcome.
fn run_rows<Row: Copy + Sync>(
    rows: impl IntoIterator<Item = Row>,
    make: impl Fn(&Row) -> Job + Sync,
) -> Vec<(Row, Outcome)> {
    let rows: Vec<Row> = rows.into_iter().collect();
    let outcomes = rows.chunks(3).flat_map(|rows| Job::run_each(rows, &make));
    rows.iter().copied().zip(outcomes).collect()
}

#[track_caller]
fn assert_lines_with(outcome: &Outcome, words: &[&str]) {
    let is_printed = |word: &&&str| outcome.own_lines().iter().any(|line| line.contains(**word));
    let missing: Vec<&&str> = words.iter().filter(|word| !is_printed(word)).collect();
    outcome.check(
        missing.is_empty(),
        &format!("no line of understudy has {missing:?}"),
    );
}

/// Number of times that a rank has reached its crash or its exit.
fn count_exits(outcome: &Outcome) -> usize {
    outcome.file("endings").map_or(0, |exits| exits.len())
}

/// Fails unless a repeated failure caused two recoveries, then the end of the job.
///
/// Two of the four spares must be left.
#[track_caller]
fn assert_blamed(outcome: &Outcome, words: &[&str]) {
    outcome.assert_status(PROGRAM_FAILURE);
    outcome.check(
        count_exits(outcome) == 3,
        "the program has not failed three times",
    );
    outcome.check(
        outcome.takeovers().len() == 2,
        "two spares should have been used",
    );
    assert_lines_with(outcome, &["3 times since checkpoint", "[repeated-fault]"]);
    assert_lines_with(outcome, words);
    outcome.assert_nothing_left();
}

#[test]
fn a_crash_that_repeats_is_the_programs() {
    let mut verdicts = Verdicts::default();
    let ways = [
        ("dereference", ": SIGSEGV at endings+0x"),
        // The program crashes within the MPI library, which it has called with a bad buffer.
        ("bad-buffer", ": SIGSEGV at "),
        ("throw", ": SIGABRT at libc"),
        ("divide", ": SIGFPE at endings+0x"),
        ("undefined", ": SIGILL at endings+0x"),
        ("raise", ": SIGSEGV at libc"),
        ("abort", ": SIGABRT at libc"),
    ];
    for ((way, words), outcome) in run_rows(variants(ways, 2), |(way, _)| job(&[way, "1"])) {
        verdicts.judge(way, || {
            assert_blamed(&outcome, &[words, "called from", "endings+0x"])
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn a_crash_that_moves_to_another_rank_is_the_programs() {
    let mut verdicts = Verdicts::default();
    for way in variants(["dereference", "throw"], 1) {
        let outcome = job(&[way, "next"]).run();
        verdicts.judge(way, || {
            assert_blamed(
                &outcome,
                &["worker 0 failed:", "worker 1 failed:", "worker 2 failed:"],
            )
        });
    }
    verdicts.assert_all_good();
}

/// True if the kernel reports the signal that has killed a process (Linux 6.15).
///
/// A process without stack cannot report its signal itself.
fn kernel_reports_fatal_signals() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

#[test]
fn an_exhausted_stack_is_the_programs() {
    if kernel_reports_fatal_signals() {
        let outcome = job(&["overflow", "2"]).run();
        assert_blamed(&outcome, &["worker 2 failed: SIGSEGV", "stack overflow"]);
    } else {
        skip(
            Requirement::Machine,
            "a kernel before Linux 6.15 does not report an exhausted stack",
        );
    }
}

#[test]
fn a_crash_that_does_not_repeat_is_recovered_from() {
    let mut verdicts = Verdicts::default();
    for way in variants(["bad-buffer", "dereference", "abort"], 1) {
        let arguments = [way, "2", "once"];
        let outcome = job(&arguments).input("once", "").run();
        verdicts.judge(way, || {
            outcome.assert_success();
            outcome.check(count_exits(&outcome) == 1, "no process has crashed");
            outcome.assert_taken_over(&[2]);
            assert_lines_with(&outcome, &["worker 2 failed: SIG"]);
            // Without the file, no rank crashes.
            outcome.assert_like(&native(job(&arguments)), &[]);
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// A call of the MPI library faults while another process has failed; the job recovers.
///
/// The failure may have caused the fault, before the MPI library has detected the failure. The call
/// is therefore abandoned, and the fault does not count against the program.
#[test]
fn a_fault_of_the_library_is_survived_if_another_process_dies() {
    let arguments = ["bad-buffer", "2", "once", "other"];
    let outcome = job(&arguments).input("once", "").input("other", "").run();
    outcome.assert_success();
    outcome.check(
        count_exits(&outcome) == 1,
        "no process has used the bad buffer",
    );
    outcome.assert_taken_over(&[1]);
    outcome.assert_like(&native(job(&arguments)), &[]);
    outcome.assert_nothing_left();
}

#[test]
fn a_rank_that_is_killed_repeatedly_is_replaced_as_long_as_there_are_spares() {
    let mut verdicts = Verdicts::default();
    let ways = [
        ("kill", "[repeated-kill]"),
        ("sent", ": SIGSEGV from outside the program"),
    ];
    for ((way, words), outcome) in run_rows(variants(ways, 1), |(way, _)| job(&[way, "1"])) {
        verdicts.judge(way, || {
            outcome.assert_status(75);
            outcome.check(
                count_exits(&outcome) == 10,
                "worker 1 has not failed ten times",
            );
            assert_lines_with(
                &outcome,
                &[words, "worker 1 has failed 10 times since checkpoint"],
            );
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_program_with_handlers_of_its_own_keeps_them() {
    let arguments = ["catch", "0"];
    // Otherwise Open MPI installs its own handlers.
    let job = || job(&arguments).env("OMPI_MCA_opal_signal", "");
    let outcome = job().fault("kill rank=3 at=cut.begin epoch=4").run();
    outcome.assert_success();
    outcome.assert_taken_over(&[3]);
    outcome.assert_like(&native(job()), &[]);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_child_may_end_as_it_likes() {
    let arguments = ["child", "0"];
    let outcome = job(&arguments).run();
    outcome.assert_success();
    outcome.check(
        outcome.own_lines().is_empty(),
        "understudy has printed a line",
    );
    outcome.assert_like(&native(job(&arguments)), &[]);
    outcome.assert_nothing_left();
}

#[test]
fn a_rank_that_leaves_without_mpi_finalize_ends_the_job() {
    let mut verdicts = Verdicts::default();
    // The launcher reports the status of a rank, or 1.
    let ways = variants([("_exit", 5, 5), ("exit-0", 0, 1), ("exit", 5, 5)], 2);
    for ((way, said, status), outcome) in run_rows(ways, |(way, ..)| job(&[way, "1"])) {
        verdicts.judge(way, || {
            outcome.assert_status(status);
            outcome.check(
                count_exits(&outcome) == 1,
                "the program has failed more than once",
            );
            let words = format!("rank 1 ended with status {said} without MPI_Finalize");
            assert_lines_with(&outcome, &[&words]);
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn mpi_abort_ends_the_job_with_its_code() {
    let outcome = job(&["MPI_Abort", "1"]).run();
    outcome.assert_status(6);
    assert_lines_with(
        &outcome,
        &["MPI_Abort was called by worker 1 with error code 6"],
    );
    outcome.check(
        count_exits(&outcome) == 1,
        "the program has failed more than once",
    );
    outcome.assert_nothing_left();
}

/// A worker fails where delete functions of MPI_COMM_SELF communicate: in MPI_Finalize.
///
/// Other ranks wait for a message of such a function before they call MPI_Finalize themselves.
/// The program releases thousands of requests at once, which takes no noticeable time.
#[test]
fn delete_functions_communicate_when_mpi_finalize_begins() {
    let job = || Job::new(paths::test_program("last_words"), &["1", "1"]).interval("3calls");
    let undisturbed = native(job());
    for call in variants([60_016, 60_012, 60_019], 1) {
        let outcome = job().fault(&format!("kill rank=1 at=call:{call}")).run();
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_taken_over(&[1]);
        outcome.assert_nothing_left();
    }
}
