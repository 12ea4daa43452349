//! MPI files: output and files equal those of a run without a failure.
//!
//! The program writes files in every way that MPI has.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Outcome, Random, Trigger, Verdicts, is_thorough, paths, variants};
use std::path::{Path, PathBuf};
use std::time::Duration;

const WORKERS: u32 = 4;
/// Rounds of the program `mpi_files`, in the first third of which workers fail.
///
/// After about 20 rounds, the files `own.*` would have gaps that the program has not written. MPICH
/// fills such gaps with bytes of its buffers, which differ from run to run.
const ROUNDS: u64 = 12;
/// Number of rounds, and pause after each round in milliseconds.
const ARGUMENTS: [&str; 2] = ["12", "40"];
/// Files to which all ranks write.
const SHARED: [&str; 4] = ["grid.dat", "record.dat", "memo.dat", "dealt.dat"];

/// Makes a job whose cuts occur at all collectives of a round in turn.
fn job(program: &Path) -> Job {
    Job::new(program, &ARGUMENTS).interval("17calls")
}

fn assert_same(outcome: &Outcome, undisturbed: &Outcome, workers: u32) {
    let own: Vec<String> = (0..workers).map(|worker| format!("own.{worker}")).collect();
    let files: Vec<&str> = SHARED
        .into_iter()
        .chain(own.iter().map(String::as_str))
        .collect();
    outcome.assert_success();
    outcome.assert_like(undisturbed, &files);
    outcome.assert_nothing_left();
}

/// Returns the outcome of a native run, in which the program's own checks must succeed.
fn checked_native_run(job: Job) -> Outcome {
    let undisturbed = native(job);
    undisturbed.assert_checks();
    undisturbed
}

/// Kills a worker within a round, while files are open, in each of `times` runs.
fn assert_survives_kills(make: impl Fn() -> Job, workers: u32, times: usize, name: &str) {
    let undisturbed = checked_native_run(make());
    let first_lines = undisturbed.first_round_lines();
    let mut verdicts = Verdicts::default();
    let mut random = Random::announced(name);
    for _ in 0..times {
        let worker = random.below(u64::from(workers)) as u32;
        let after = first_lines + random.below(ROUNDS / 3) as usize;
        // The delay exceeds the pause after each round.
        let delay = Duration::from_micros(40_000 + random.below(30_000));
        let kill = Kill::at(worker, Trigger::Lines(after)).after(delay);
        let outcome = make().kill(kill).run();
        verdicts.judge(
            &format!("worker {worker}, {delay:?} after line {after}"),
            || {
                assert_same(&outcome, &undisturbed, workers);
                outcome.assert_taken_over(&[worker]);
            },
        );
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn undisturbed_run_equals_native_run() {
    let make = || job(&paths::test_program("mpi_files"));
    assert_same(&make().run(), &checked_native_run(make()), WORKERS);
}

#[test]
fn a_worker_dies_between_writes() {
    let times = if is_thorough() { 8 } else { 1 };
    assert_survives_kills(
        || job(&paths::test_program("mpi_files")),
        WORKERS,
        times,
        "mpi_files",
    );
}

/// Worker 2 fails after the recovery of worker 1; both recoveries reopen the files.
#[test]
fn two_die_one_after_the_other() {
    let make = || job(&paths::test_program("mpi_files"));
    let undisturbed = checked_native_run(make());
    let deaths = "kill rank=1 at=cut.end epoch=4; kill rank=2 at=cut.end epoch=7";
    let outcome = make().spares(2).fault(deaths).run();
    assert_same(&outcome, &undisturbed, WORKERS);
    outcome.assert_taken_over(&[1, 2]);
}

/// Kills one of two workers of a program for MPICH or the standard ABI.
fn assert_mpich_survives_kills(program: Option<PathBuf>, name: &str) {
    let Some(program) = program else { return };
    let make = || job(&program).workers(2).of_mpich();
    assert_survives_kills(make, 2, if is_thorough() { 4 } else { 1 }, name);
}

#[test]
fn a_worker_of_mpich_dies() {
    assert_mpich_survives_kills(paths::mpich_program("mpi_files"), "mpi_files of MPICH");
}

/// The constants `MPI_MODE_*` and `MPI_SEEK_*` have other values than in Open MPI and MPICH.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_the_standard_abi_dies() {
    assert_mpich_survives_kills(
        paths::standard_program("mpi_files"),
        "mpi_files of the standard ABI",
    );
}

/// Runs a program under understudy; fails unless the program's own checks succeed.
fn checked_run(job: Job) -> Outcome {
    let outcome = job.run();
    outcome.assert_success();
    outcome.assert_checks();
    outcome.assert_nothing_left();
    outcome
}

/// Fails unless output and files are undisturbed after failures at these cuts.
fn assert_survived(
    make: impl Fn() -> Job,
    undisturbed: &Outcome,
    deaths: impl IntoIterator<Item = (u32, u32)>,
) {
    let mut verdicts = Verdicts::default();
    for (rank, epoch) in deaths {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = make().fault(&fault).run();
        verdicts.judge(&fault, || {
            outcome.assert_recovered(undisturbed, &[], &[rank]);
            outcome.assert_same_files(undisturbed);
        });
    }
    verdicts.assert_all_good();
}

/// Unusual uses of MPI files, which the program itself checks.
///
/// The uses are views that repeat bytes, appending, errors of one process in a collective, and a
/// shared pointer whose hidden file cannot be created beside the file, because its name would be
/// too long. Open MPI and MPICH do not support all of these uses, so nothing is compared with them.
#[test]
fn views_that_repeat_bytes_and_errors_of_one_process() {
    let make = || Job::new(paths::test_program("mpi_views"), &["4", "2"]).interval("23calls");
    let undisturbed = checked_run(make());
    assert_survived(
        make,
        &undisturbed,
        variants([(1, 7), (3, 12), (0, 15), (2, 21)], 1),
    );
}

/// The program continues to write after the file was renamed, or unlinked.
#[test]
fn files_are_renamed_or_removed_while_they_are_open() {
    let make = || Job::new(paths::test_program("mpi_renamed"), &["8", "2"]).interval("5calls");
    let undisturbed = checked_run(make());
    undisturbed.assert_like(&checked_native_run(make()), &["moved.a"]);
    undisturbed.assert_single_line(&["[mpi-file-without-name]"]);
    let deaths = [
        (1, 6),
        (2, 7),
        (0, 8),
        (3, 9),
        (1, 10),
        (2, 11),
        (0, 12),
        (3, 13),
        (1, 14),
        (2, 15),
    ];
    assert_survived(make, &undisturbed, variants(deaths, 1));
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_long_file_is_cut_off_in_pieces() {
    let make = || Job::new(paths::test_program("mpi_cut_off"), &["4", "2"]).interval("4calls");
    let undisturbed = checked_run(make());
    undisturbed.assert_like(&checked_native_run(make()), &["long.dat"]);
    assert_survived(
        make,
        &undisturbed,
        variants([(1, 3), (0, 4), (2, 5), (3, 6)], 1),
    );
}

/// Elements are too long for the MPI library, whose procedures use 31-bit positions within them.
#[test]
#[ignore = "a variant: make test-all"]
fn elements_may_have_2_gib() {
    let job = Job::new(paths::test_program("mpi_long"), &["1", "2"]).workers(2);
    checked_run(job.interval("off"));
}
