//! Programs in other distributions: with the C library and the MPI libraries of each suite.
//!
//! The programs are compiled in the suite. They are run by the suite's launcher without understudy,
//! and by `understudy run` undisturbed and with failures.

use ffi_tests::root_file_system::Root;
use ffi_tests::{Verdicts, fault_at_commit, programs};
use std::path::Path;
use std::process::Output;

/// An MPI library of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mpi {
    OpenMpi,
    Mpich,
}

impl Mpi {
    fn compiler(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "mpicc.openmpi",
            Mpi::Mpich => "mpicc.mpich",
        }
    }

    fn launcher(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "mpirun.openmpi --oversubscribe",
            Mpi::Mpich => "mpiexec.mpich",
        }
    }
}

/// A program of the table.
struct Program {
    /// Source and options of the compiler; `None` if the suite has the program.
    source: Option<&'static str>,
    command: &'static str,
    /// True if the suite has the program for Open MPI only.
    is_for_open_mpi: bool,
}

const fn compiled(source: &'static str, command: &'static str) -> Program {
    Program {
        source: Some(source),
        command,
        is_for_open_mpi: false,
    }
}

const fn installed(command: &'static str) -> Program {
    Program {
        source: None,
        command,
        is_for_open_mpi: true,
    }
}

const HEAT2D: Program = compiled("c-examples/heat2d.c -lm", "./program 200 200 400");
const PROGRAMS: [Program; 6] = [
    HEAT2D,
    compiled("ffi-tests/programs/pool.c -pthread", "./program 60 3 20000"),
    compiled("ffi-tests/programs/teams.c -fopenmp", "./program 100 3"),
    compiled(
        "ffi-tests/programs/table/dlopen_loop.c -ldl -lm",
        "./program 16",
    ),
    installed("python3 /source/ffi-tests/programs/solver.py 40 0.005"),
    installed("lmp -in input -log none"),
];

const RANKS: u32 = 3;
/// Workers that fail, each at the end of the checkpoint of this number.
const FAILURES: [(u32, u64); 2] = [(1, 3), (0, 4)];

/// Sorted lines of standard output, without lines that contain times.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_timing = |line: &str| {
        [
            "Loop time",
            "Performance:",
            "CPU",
            "Total wall",
            "Memory usage",
            "|",
            "%",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !is_timing(line))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

fn describe(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs a program without understudy, undisturbed and with failures, and compares.
fn assert_runs(root: &Root, mpi: Mpi, program: &Program) {
    let directory = tempfile::tempdir().expect("there is room");
    let work = directory.path();
    std::fs::write(work.join("input"), programs::LAMMPS_INPUT).expect("there is room");
    if let Some(source) = program.source {
        let compile = format!("{} -w -O1 -o program /source/{source}", mpi.compiler());
        let compiled = root.run(work, &compile);
        assert!(compiled.status.success(), "{}", describe(&compiled));
    }
    let command = program.command;
    let plain = root.run(work, &format!("{} -n {RANKS} {command}", mpi.launcher()));
    assert!(plain.status.success(), "{}", describe(&plain));
    assert_protected(root, work, command, None, &plain);
    for (worker, checkpoint) in FAILURES {
        let fault = fault_at_commit(worker, checkpoint);
        assert_protected(root, work, command, Some(&fault), &plain);
    }
}

fn assert_protected(root: &Root, work: &Path, command: &str, fault: Option<&str>, plain: &Output) {
    let fault = fault.map_or(String::new(), |fault| {
        format!("UNDERSTUDY_FAULT='{fault}' ")
    });
    let output = root.run(
        work,
        &format!(
            "{fault}/opt/understudy/understudy run -n {RANKS} --spares 1 --interval 5calls \
             -- {command}"
        ),
    );
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(lines(&output), lines(plain), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    let recoveries = said.matches("; replaced by ").count();
    assert_eq!(recoveries, usize::from(!fault.is_empty()), "{said}");
}

fn assert_table(suite: &str, mpi: Mpi) {
    let Some(root) = Root::of(suite) else { return };
    let directory = tempfile::tempdir().expect("there is room");
    println!("{suite}: {}", root.libc(directory.path()));
    let mut verdicts = Verdicts::default();
    for program in &PROGRAMS {
        if mpi == Mpi::OpenMpi || !program.is_for_open_mpi {
            let name = format!("{mpi:?}: {}", program.source.unwrap_or(program.command));
            verdicts.judge(&name, || assert_runs(&root, mpi, program));
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_fails_in_debian_13() {
    let Some(root) = Root::of("trixie") else {
        return;
    };
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        assert_runs(&root, mpi, &HEAT2D);
    }
}

#[test]
#[ignore = "a variant: make sweep"]
fn programs_run_in_debian_13_with_open_mpi() {
    assert_table("trixie", Mpi::OpenMpi);
}

#[test]
#[ignore = "a variant: make sweep"]
fn programs_run_in_debian_13_with_mpich() {
    assert_table("trixie", Mpi::Mpich);
}

#[test]
#[ignore = "a variant: make sweep"]
fn programs_run_in_debian_sid_with_open_mpi() {
    assert_table("sid", Mpi::OpenMpi);
}

#[test]
#[ignore = "a variant: make sweep"]
fn programs_run_in_debian_sid_with_mpich() {
    assert_table("sid", Mpi::Mpich);
}
