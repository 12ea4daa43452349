//! Programs of Debian's MPICH, and of its Fortran bindings.
//!
//! The library has another name than that of MPICH: `libmpich.so.12`.

use crate::persistence::{disk, restarted_job};
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, KillScope, Trigger, Verdicts, paths, variants};
use std::fs;
use std::path::Path;
use std::process::Command;

const LAUNCHER: &str = "/usr/bin/mpiexec.hydra";
const HEAT: &str = "../../c-examples/heat2d.c";

/// Sorts lines by their text, since all ranks of `answers` print.
fn sorted(text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines.join(&b'\n')
}

/// Fails unless the program prints, in spite of each kill, what it prints without understudy.
fn survives(source: &str, arguments: &[&str], interval: &str, kills: &[(u32, usize)]) {
    let Some(program) = paths::debian_mpich_program(source) else {
        return;
    };
    let job = || {
        let job = Job::new(&program, arguments).workers(2).interval(interval);
        job.of_mpich()
    };
    let undisturbed = native(job().mpirun(Path::new(LAUNCHER)));
    let mut verdicts = Verdicts::default();
    for &(worker, lines) in kills {
        let outcome = job().kill(Kill::at(worker, Trigger::Lines(lines))).run();
        verdicts.judge(
            &format!("{source}, worker {worker} after {lines} lines"),
            || {
                outcome.assert_success();
                outcome.assert_like_after(&undisturbed, &[], sorted);
                outcome.assert_taken_over(&[worker]);
                outcome.assert_nothing_left();
            },
        );
    }
    verdicts.assert_all_good();
}

/// Subroutines of the program are callbacks of MPI, which a recovery restores.
///
/// The callbacks are reduction, copy and delete functions, error handlers, and those of generalized
/// requests.
#[test]
fn a_worker_of_a_program_of_mpi_f08_dies() {
    let kills: Vec<_> = variants([(1, 300), (0, 60)], 1).collect();
    survives("fortran/answers.f90", &["40"], "7calls", &kills);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_a_program_of_the_module_dies() {
    let kills: Vec<_> = variants([(0, 20), (1, 70)], 1).collect();
    survives("fortran/heat.f90", &["200", "1000"], "0.02s", &kills);
}

/// The program uses MPI_BOTTOM, attributes of MPI-1, and persistent requests.
///
/// UCX has more queues after the second initialisation than after the first.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_a_program_of_mpif_h_dies() {
    let kills: Vec<_> = variants([(0, 20), (1, 40)], 1).collect();
    survives("fortran/legacy.f", &["700"], "7calls", &kills);
}

/// The program receives from MPI_PROC_NULL, for which this MPICH reports rank 0 as the source.
#[test]
fn a_worker_of_a_program_in_c_dies() {
    survives("completion.c", &["12", "10"], "7calls", &[(1, 30)]);
}

/// The user preloads the library for Open MPI, which loads the one for MPICH.
#[test]
fn a_worker_dies_under_the_launcher_of_debians_mpich() {
    let Some(program) = paths::debian_mpich_program(HEAT) else {
        return;
    };
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let ranks = |count: &str, variables: &[(&str, &str)]| {
        paths::wait_for_turn();
        let mut command = Command::new("timeout");
        command.args(["60", LAUNCHER, "-n", count]);
        for (name, value) in variables {
            command.args(["-env", name, value]);
        }
        command.arg(&program).args(["300", "300", "600"]);
        command
            .current_dir(directory.path())
            .output()
            .expect("timeout runs")
    };
    let undisturbed = ranks("2", &[]);
    assert!(undisturbed.status.success());
    let layer = paths::preload_library();
    let outcome = ranks(
        "3",
        &[
            ("LD_PRELOAD", layer.to_str().expect("text")),
            ("UNDERSTUDY_INTERVAL", "50calls"),
            ("UNDERSTUDY_FAULT", "kill rank=1 at=commit.end epoch=3"),
        ],
    );
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{errors}");
    assert!(
        errors.contains("worker 1 failed; replaced by rank 2"),
        "{errors}"
    );
    assert!(
        outcome.stdout == undisturbed.stdout,
        "the output differs: {errors}"
    );
}

const FILES: &[&str] = &["heat.field", "heat.log"];

/// Jacobi iterations on two ranks.
fn heat(program: &Path) -> Job {
    let arguments = [
        "200",
        "200",
        "1200",
        "heat.field",
        "--print-every",
        "6",
        "--log",
        "heat.log",
    ];
    let job = Job::new(program, &arguments).workers(2).interval("30calls");
    job.of_mpich()
}

/// A worker fails on each of two hosts, which UCX takes for one machine.
///
/// The hosts do not share memory, so UCX is restricted to TCP.
#[test]
fn a_worker_of_each_host_dies() {
    let Some(program) = paths::debian_mpich_program(HEAT).filter(|_| Hosts::are_possible()) else {
        return;
    };
    let undisturbed = native(heat(&program).mpirun(Path::new(LAUNCHER)));
    let fault = [0, 1].map(|rank| format!("kill rank={rank} at=ship.half epoch={}", 2 + rank));
    let job = heat(&program).hosts(&[1, 2]).fault(&fault.join("; "));
    let outcome = job.env("UCX_TLS", "tcp,self").run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, FILES);
    outcome.assert_replaced(&[0, 1]);
    outcome.assert_nothing_left();
}

/// This MPICH computes the minimum of unsigned numbers as if they were signed.
///
/// The checkpoint to load is chosen by such a minimum.
#[test]
fn a_job_resumes_from_disk() {
    let Some(program) = paths::debian_mpich_program(HEAT) else {
        return;
    };
    let undisturbed = native(heat(&program).mpirun(Path::new(LAUNCHER)));
    let (job, on_disk) = (
        || heat(&program).disk(),
        Trigger::OnDisk {
            workers: 2,
            epoch: 4,
        },
    );
    let mut first = job().killed_as_a_whole(on_disk, KillScope::Job).run();
    first.check(
        first.killed.iter().all(|killed| killed.hit),
        "the job ended before it was killed",
    );
    fs::remove_file(restarted_job::newest(&first, 2, 0)).expect("the file is there");
    let again = job()
        .env("UNDERSTUDY_RESTART", "1")
        .fault("kill rank=1 at=cut.end epoch=30");
    let second = again.run_after(&mut first);
    let refused = disk::count_lines_with(&second, "[checkpoint-missing]");
    second.check(refused >= 1, "the last checkpoint was used");
    second.assert_taken_over(&[1]);
    restarted_job::assert_like(&undisturbed, FILES, &first.stdout, second);
}
