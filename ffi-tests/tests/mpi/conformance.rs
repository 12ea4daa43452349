//! Programs for each area of the standard get equal answers in all runs.
//!
//! The runs are: without understudy, with understudy, and with a failed worker.

use crate::persistence::restarted_job;
use ffi_tests::native_runs::native;
use ffi_tests::{
    Job, Kill, Random, Requirement, Trigger, Verdicts, is_thorough, paths, skip, variants,
};
use std::time::Duration;

const WORKERS: u32 = 4;
/// Rounds of every program; failures occur in the first quarter.
///
/// Workers wait in MPI_Finalize until all failures have occurred.
const ROUNDS: u64 = 12;
/// Number of rounds, and pause after each round in milliseconds.
const ARGUMENTS: [&str; 2] = ["12", "10"];
/// Longest time between a line of output and a failure, in microseconds.
const LONGEST_DELAY: u64 = 40_000;
/// Number of runs with a failure of each program, unless `FFI_TESTS_TIMES` is set.
const TIMES: usize = 1;

fn job(name: &str) -> Job {
    // Cuts occur at all collectives of a round in turn, since a round has fewer than seven
    // collectives.
    Job::new(paths::test_program(name), &ARGUMENTS).interval("7calls")
}

/// Fails unless the output is undisturbed when a worker fails between or within rounds.
///
/// With `FFI_TESTS_ALL`, an undisturbed run under understudy is checked as well.
fn conforms(name: &str) {
    let undisturbed = native(job(name));
    undisturbed.assert_checks();
    let mut verdicts = Verdicts::default();
    if is_thorough() {
        let layered = job(name).run();
        verdicts.judge(&format!("{name} undisturbed"), || {
            layered.assert_success();
            layered.assert_like(&undisturbed, &[]);
        });
    }
    let mut random = Random::announced(name);
    let times = std::env::var("FFI_TESTS_TIMES")
        .ok()
        .and_then(|times| times.parse().ok());
    for time in 0..times.unwrap_or(TIMES) {
        let worker = random.below(u64::from(WORKERS)) as u32;
        let after = undisturbed.first_round_lines() + random.below(ROUNDS / 4) as usize;
        let delay = Duration::from_micros(random.below(LONGEST_DELAY));
        let outcome = job(name)
            .kill(Kill::at(worker, Trigger::Lines(after)).after(delay))
            .run();
        verdicts.judge(
            &format!("{name}, kill {time}: worker {worker}, {delay:?} after line {after}"),
            || {
                outcome.assert_recovered(&undisturbed, &[], &[worker]);
            },
        );
    }
    verdicts.assert_all_good();
}

macro_rules! programs {
    ($($test:ident: $program:literal;)*) => {$(
        #[test]
        fn $test() {
            conforms($program);
        }
    )*};
}

programs! {
    messages_of_all_modes: "point_to_point";
    completion_and_persistent_requests: "completion";
    statuses_of_one_and_of_many: "statuses";
    collectives: "collectives";
    persistent_collectives: "persistent";
    persistent_requests_on_freed_communicators: "outlived";
    partitioned_messages: "partitioned";
    what_a_partitioned_message_has_brought_stays: "ahead";
    generalized_requests: "general";
    the_tool_interface: "tools";
    variables_that_are_part_of_communicators: "variables";
    one_sided_communication: "windows";
    locks_that_need_no_check: "unchecked";
    windows_of_shared_memory: "commons";
    accumulates: "accumulates";
    intercommunicators: "intercommunicators";
    communicators: "communicators";
    communicators_that_some_free_before_others: "parting";
    topologies: "topologies";
    groups: "groups";
    datatypes: "datatypes";
    operators: "operators";
    attributes: "attributes";
    errors: "errors";
    buffered_sends: "buffered";
    synchronous_sends: "synchronous";
    sessions_beside_mpi_init: "sessions";
    environment: "environment";
    timers_limits_and_the_signal_stack: "process";
    directories_and_devices: "descriptors";
    locks_that_know_their_owner: "locks";
}

/// A lock that a failed worker held is free in the next MPI instance.
#[test]
fn workers_may_die_in_the_middle_of_an_accumulate() {
    let undisturbed = native(job("accumulates"));
    let fault = "kill rank=1 at=accumulate.half epoch=3; kill rank=2 at=accumulate.half epoch=5";
    let outcome = job("accumulates").fault(fault).spares(2).run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, &[]);
    outcome.assert_replaced(&[1, 2]);
}

/// A worker fails, and the program restarts from its beginning.
///
/// A communicator may depend on the values of control variables (MPI_T) at its creation. If a
/// variable is written later, no checkpoint is taken as long as the communicator exists.
#[test]
fn no_checkpoint_is_taken_of_communicators_of_other_values() {
    let arguments = [&ARGUMENTS[..], &["between"]].concat();
    let job = || Job::new(paths::test_program("variables"), &arguments).interval("7calls");
    let undisturbed = native(job());
    undisturbed.assert_success();
    let kill = Kill::at(1, Trigger::Lines(ROUNDS as usize / 2));
    let outcome = job().kill(kill).run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, &[]);
    outcome.assert_taken_over(&[1]);
    let message = "[control-variable-written]";
    let lines = outcome.own_lines();
    outcome.check(
        lines.iter().any(|line| line.contains(message)),
        "the reason is not reported",
    );
}

/// Survivors are rolled back to a time before they installed handlers and started timers.
///
/// Timers that the rollback does not stop would send signals for which no handler exists.
#[test]
fn timers_of_after_the_checkpoint_send_no_signal() {
    let undisturbed = native(job("process"));
    for worker in variants(0..WORKERS, 2) {
        let fault = format!("kill rank={worker} at=call:25");
        let outcome = job("process").interval("off").fault(&fault).run();
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_replaced(&[worker]);
    }
}

/// The second recovery rolls the replacement back to the checkpoint that it has loaded.
///
/// Locks in that checkpoint belong to the process that failed first.
#[test]
#[ignore = "a variant: make test-all"]
fn locks_are_restored_by_two_recoveries_from_one_checkpoint() {
    let undisturbed = native(job("locks"));
    let deaths = "kill rank=1 at=cut.end epoch=6; kill rank=3 at=resume.end";
    let outcome = job("locks").spares(2).fault(deaths).run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, &[]);
    let mut replaced = outcome.takeovers();
    replaced.sort_unstable();
    outcome.check(
        replaced == [1, 3],
        &format!("replaced workers: {replaced:?}"),
    );
}

/// The whole job is killed and restarted from its disk level.
///
/// Requests with recipes are rebuilt.
#[test]
fn persistent_collectives_and_partitioned_messages_continue_after_a_restart() {
    for name in ["persistent", "partitioned"] {
        let make = || {
            Job::new(paths::test_program(name), &ARGUMENTS)
                .disk()
                .interval("7calls")
        };
        let mut first = restarted_job::killed(make(), 3);
        let second = make().env("UNDERSTUDY_RESTART", "1").run_after(&mut first);
        restarted_job::assert_like(&native(make()), &[], &first.stdout, second);
    }
}

#[test]
fn tile_registers() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !processor.contains(" amx_tile ") {
        return skip(
            Requirement::Machine,
            "this processor has no tile registers (AMX)",
        );
    }
    conforms("tiles");
}

/// The program calls MPI_Abort; the launcher exits with the error code of that call.
#[test]
#[ignore = "a variant: make test-all"]
fn an_abort_has_its_status() {
    let outcome = job("aborting").run();
    outcome.assert_status(37);
}

/// The program requests that errors of files are fatal, and cannot open a file.
#[test]
fn files_that_cannot_be_opened_end_the_job_only_on_request() {
    let outcome = Job::new(paths::test_program("aborting"), &["2", "1", "file"]).run();
    outcome.assert_failed();
    outcome.assert_line(&["MPI_File_open failed"]);
}

/// An error before MPI_Init is fatal: a line reports the call, and the job ends.
///
/// No rank has contacted the node manager yet.
#[test]
fn an_error_before_mpi_init_ends_the_job_with_a_word() {
    let outcome = Job::new(paths::test_program("aborting"), &["2", "1", "early"]).run();
    let has_failed = outcome.status.is_some_and(|status| !status.success());
    outcome.check(has_failed, "the error was not fatal");
    outcome.assert_line(&["MPI_Info_free failed"]);
    outcome.assert_nothing_left();
}

/// Fails unless a small job prints equal lines with and without understudy.
fn answers_the_same(name: &str, arguments: &[&str]) {
    let make = || Job::new(paths::test_program(name), arguments).workers(2);
    let outcome = make().run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(make()));
}

#[test]
fn any_thread_may_query_the_state_of_mpi() {
    answers_the_same("threads", &[]);
}

#[test]
fn mpi_comm_free_does_not_wait() {
    answers_the_same("local", &["free"]);
}

#[test]
fn mpi_comm_idup_does_not_wait() {
    answers_the_same("local", &["idup"]);
    answers_the_same("local", &["idup-inter"]);
}
