//! Programs of Intel MPI, whose ABI is that of MPICH.
//!
//! All tests are variants, because `make setup` does not install Intel MPI.

use ffi_tests::intel_programs::{job, program};
use ffi_tests::native_runs::native;
use ffi_tests::programs::HEAT2D;
use ffi_tests::{Job, Kill, Launcher, Outcome, Trigger, Verdicts};
use std::path::Path;

const HEAT: &str = "../../c-examples/heat2d.c";
const HEAT_FILES: [&str; 2] = ["heat.field", "heat.log"];

fn heat2d(program: &Path) -> Job {
    job(program, &HEAT2D).workers(2).interval("50calls")
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_heat2d_dies_in_the_middle() {
    let Some(program) = program(HEAT) else { return };
    let undisturbed = native(heat2d(&program));
    for (worker, line) in [(0, 12), (1, 20)] {
        let outcome = heat2d(&program)
            .kill(Kill::at(worker, Trigger::Lines(line)))
            .run();
        outcome.assert_recovered(&undisturbed, &HEAT_FILES, &[worker]);
    }
}

/// The user preloads the library for Open MPI, which loads the one for MPICH.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_dies_under_intels_launcher() {
    let Some(program) = program(HEAT) else { return };
    let undisturbed = native(heat2d(&program));
    for (worker, line) in [(1, 8), (0, 25)] {
        let outcome = heat2d(&program)
            .launched_by(Launcher::Mpiexec)
            .kill(Kill::at(worker, Trigger::Lines(line)))
            .run();
        outcome.assert_recovered(&undisturbed, &HEAT_FILES, &[worker]);
    }
}

/// Number of jobs in each of which a worker is killed twice.
const JOBS: u32 = 26;

/// Kills 52 workers, two in each job, half of them under either launcher.
#[test]
#[ignore = "a variant: make test-all"]
fn workers_die_at_any_of_many_calls() {
    let Some(program) = program(HEAT) else { return };
    let arguments = ["120", "120", "400", "heat.field", "--print-every", "10"];
    let job = || job(&program, &arguments).workers(2).interval("25calls");
    let undisturbed = native(job());
    let mut verdicts = Verdicts::default();
    for index in 0..JOBS {
        let launcher = [Launcher::Ckptd, Launcher::Mpiexec][index as usize % 2];
        let (first, second) = (index / 2 % 2, 1 - index / 2 % 2);
        let (early, late) = (3 + 19 * index, 603 + 19 * index);
        let fault = format!("kill rank={first} at=call:{early}; kill rank={second} at=call:{late}");
        let outcome = job().launched_by(launcher).fault(&fault).run();
        verdicts.judge(&format!("{fault} under {launcher:?}"), || {
            outcome.assert_recovered(&undisturbed, &HEAT_FILES[..1], &[first, second]);
        });
    }
    verdicts.assert_all_good();
}

/// Intel MPI selects the order of a sum by reports of its own launcher.
#[test]
#[ignore = "a variant: make test-all"]
fn sums_are_added_up_in_the_order_of_intels_launcher() {
    let Some(program) = program("orders.c") else {
        return;
    };
    let job = || job(&program, &["24"]).workers(8).interval("10calls");
    let undisturbed = native(job());
    let mut verdicts = Verdicts::default();
    for launcher in [Launcher::Ckptd, Launcher::Mpiexec] {
        for (worker, call) in [(3, 25), (0, 41), (7, 64)] {
            let outcome = job()
                .launched_by(launcher)
                .fault(&format!("kill rank={worker} at=call:{call}"))
                .run();
            let name = format!("worker {worker} at call {call} under {launcher:?}");
            verdicts.judge(&name, || {
                outcome.assert_recovered(&undisturbed, &[], &[worker]);
            });
        }
    }
    verdicts.assert_all_good();
}

/// Kills a worker after its first rounds.
fn killed(program: &Path, lines: usize) -> Outcome {
    let job = job(program, &["12", "10"]).workers(2).interval("7calls");
    job.kill(Kill::at(1, Trigger::Lines(lines))).run()
}

/// Programs of other parts of MPI.
///
/// The list lacks `windows`, `parting`, `sessions` and `persistent`, which Intel MPI itself does
/// not execute as the standard demands.
const PROGRAMS: [&str; 18] = [
    "completion",
    "collectives",
    "buffered",
    "commons",
    "accumulates",
    "communicators",
    "outlived",
    "intercommunicators",
    "groups",
    "topologies",
    "partitioned",
    "ahead",
    "general",
    "tools",
    "large_counts",
    "handlers",
    "texts",
    "operators",
];

#[test]
#[ignore = "a variant: make test-all"]
fn every_part_of_mpi() {
    let mut verdicts = Verdicts::default();
    for name in PROGRAMS {
        let Some(program) = program(&format!("{name}.c")) else {
            return;
        };
        let native_job = job(&program, &["12", "10"]).workers(2);
        let undisturbed = native(native_job.interval("7calls"));
        let outcome = killed(&program, undisturbed.first_round_lines() + 3);
        verdicts.judge(name, || {
            outcome.assert_recovered(&undisturbed, &[], &[1]);
        });
    }
    verdicts.assert_all_good();
}

/// A program in which a worker is killed after some lines of output.
struct Part {
    source: &'static str,
    arguments: &'static [&'static str],
    workers: u32,
    lines: usize,
    /// Variables of each transport over which Intel MPI itself executes the program.
    transports: &'static [Variables],
}

type Variables = &'static [(&'static str, &'static str)];

const SHM: Variables = &[("I_MPI_FABRICS", "shm")];
const OFI: Variables = &[("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "tcp")];

/// Files of MPI, windows, and spawned processes.
const PARTS: [Part; 3] = [
    Part {
        source: "mpi_files.c",
        arguments: &["12", "10"],
        workers: 2,
        lines: 20,
        transports: &[SHM, OFI],
    },
    Part {
        source: "puts.c",
        arguments: &["1000", "3000"],
        workers: 2,
        lines: 20,
        transports: &[SHM, OFI],
    },
    // With its default transports, Intel MPI itself crashes in `MPI_Comm_spawn`.
    Part {
        source: "spawning.c",
        arguments: &["3", "20"],
        workers: 3,
        lines: 5,
        transports: &[OFI],
    },
];

#[test]
#[ignore = "a variant: make test-all"]
fn files_windows_and_spawned_processes() {
    let mut verdicts = Verdicts::default();
    for part in &PARTS {
        let Some(program) = program(part.source) else {
            continue;
        };
        for transport in part.transports {
            let make = || {
                let job = job(&program, part.arguments).workers(part.workers);
                let set = |job: Job, (name, value): &(&str, &str)| job.env(name, value);
                transport.iter().fold(job.interval("7calls"), set)
            };
            let undisturbed = native(make());
            let outcome = make().kill(Kill::at(1, Trigger::Lines(part.lines))).run();
            println!("{} over {transport:?}: {:?}", part.source, outcome.wall);
            verdicts.judge(&format!("{} over {transport:?}", part.source), || {
                outcome.assert_all_recovered(&undisturbed, &[1]);
            });
        }
    }
    verdicts.assert_all_good();
}
