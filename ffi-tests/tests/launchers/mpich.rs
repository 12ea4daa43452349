//! Programs that are compiled with MPICH's mpicc.
//!
//! Handles are integers; status and constants differ from those of Open MPI. MPICH spins while it
//! waits, so native runs have two ranks in most cases, and jobs have two workers and a spare.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::HEAT2D;
use ffi_tests::{
    Job, Kill, Launcher, Outcome, Requirement, Trigger, Verdicts, is_thorough, paths, skip,
    variants,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of rounds, and pause after each round in milliseconds.
const ARGUMENTS: [&str; 2] = ["12", "10"];

fn job(program: &Path) -> Job {
    let job = Job::new(program, &ARGUMENTS).workers(2).interval("7calls");
    job.of_mpich()
}

/// Runs a program in which a worker fails after its first rounds.
fn killed(program: &Path, lines: usize) -> Outcome {
    job(program).kill(Kill::at(1, Trigger::Lines(lines))).run()
}

/// Fails unless programs print what they print without understudy, with a failed worker.
///
/// With `FFI_TESTS_ALL`, undisturbed runs under understudy are checked as well.
#[track_caller]
fn conform(compile: fn(&str) -> Option<PathBuf>, names: &[&str]) {
    let mut verdicts = Verdicts::default();
    for name in variants(names, 1) {
        let Some(program) = compile(name) else { return };
        let undisturbed = native(job(&program));
        if is_thorough() {
            let layered = job(&program).run();
            verdicts.judge(&format!("{name} undisturbed"), || {
                layered.assert_success();
                layered.assert_like(&undisturbed, &[]);
            });
        }
        let outcome = killed(&program, undisturbed.first_round_lines() + 3);
        verdicts.judge(&format!("{name} with a kill"), || {
            outcome.assert_recovered(&undisturbed, &[], &[1]);
        });
    }
    verdicts.assert_all_good();
}

/// MPICH changes the order of a sum from its fifth use on, on each communicator.
///
/// The fault is at a call, so that no worker runs ahead.
#[test]
fn sums_are_added_up_in_the_same_order() {
    let Some(program) = paths::mpich_program("orders") else {
        return;
    };
    let job = || {
        Job::new(&program, &["24"])
            .workers(8)
            .interval("10calls")
            .of_mpich()
    };
    let undisturbed = native(job());
    let mut verdicts = Verdicts::default();
    for (worker, call) in variants([(3, 25), (0, 41), (7, 64)], 1) {
        let outcome = job()
            .fault(&format!("kill rank={worker} at=call:{call}"))
            .run();
        verdicts.judge(&format!("worker {worker} at call {call}"), || {
            outcome.assert_recovered(&undisturbed, &[], &[worker]);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn messages_requests_and_collectives() {
    conform(
        paths::mpich_program,
        &["completion", "collectives", "buffered"],
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn persistent_collectives_generalized_requests_and_tools() {
    conform(
        paths::mpich_program,
        &["persistent", "partitioned", "ahead", "general", "tools"],
    );
}

#[test]
fn windows() {
    conform(paths::mpich_program, &["windows", "commons", "accumulates"]);
}

#[test]
fn large_counts() {
    conform(paths::mpich_program, &["large_counts"]);
    if is_thorough() {
        conform(paths::standard_program, &["large_counts"]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn arrays_of_large_counts() {
    conform(paths::mpich_program, &["large_arrays"]);
    conform(paths::standard_program, &["large_arrays"]);
}

/// Replicas contain the buffers of these messages: 20 GiB in all.
#[test]
#[ignore = "a variant: make test-all"]
fn messages_of_more_elements_than_an_int_counts() {
    let Some(program) = paths::mpich_program("long_messages") else {
        return;
    };
    let job = || {
        Job::new(&program, &["1", "0"])
            .workers(2)
            .interval("4calls")
            .of_mpich()
    };
    let undisturbed = native(job());
    for call in variants([10, 17], 1) {
        let outcome = job()
            .fault(&format!("kill rank={} at=call:{call}", call % 2))
            .run();
        outcome.assert_recovered(&undisturbed, &[], &[call % 2]);
    }
}

/// Counts, displacements and extents do not fit in 31 bits.
#[test]
#[ignore = "a variant: make test-all"]
fn datatypes_of_large_counts() {
    conform(paths::mpich_program, &["large_types"]);
    conform(paths::standard_program, &["large_types"]);
}

#[test]
fn communicators_groups_and_topologies() {
    conform(
        paths::mpich_program,
        &[
            "communicators",
            "parting",
            "outlived",
            "intercommunicators",
            "groups",
            "topologies",
        ],
    );
}

/// MPICH keeps error fields that Open MPI changes, and vice versa.
#[test]
#[ignore = "a variant: make test-all"]
fn error_fields_of_statuses() {
    conform(paths::mpich_program, &["statuses"]);
    conform(paths::standard_program, &["statuses"]);
}

/// Each ABI has its own limits for names, keys and texts.
#[test]
#[ignore = "a variant: make test-all"]
fn texts_of_any_length() {
    conform(paths::mpich_program, &["texts"]);
    conform(paths::standard_program, &["texts"]);
}

/// The error handler is that of MPI_COMM_WORLD or of MPI_COMM_SELF.
///
/// The version of the library determines which handler is called, and what is returned afterwards.
#[test]
#[ignore = "a variant: make test-all"]
fn error_handlers_of_errors_without_an_object() {
    conform(paths::mpich_program, &["handlers"]);
    conform(paths::standard_program, &["handlers"]);
    conform(
        |name| paths::debian_mpich_program(&format!("{name}.c")),
        &["handlers"],
    );
}

/// Completed requests, attached buffers and error codes are restored from a cut.
#[test]
#[ignore = "a variant: make test-all"]
fn states_of_requests_buffers_and_removed_errors() {
    conform(paths::mpich_program, &["newer"]);
    conform(paths::standard_program, &["newer"]);
    let Some(program) = paths::mpich_program("newer") else {
        return;
    };
    let undisturbed = native(job(&program));
    for call in variants([700, 100], 1) {
        let outcome = job(&program)
            .fault(&format!("kill rank=1 at=call:{call}"))
            .run();
        outcome.assert_recovered(&undisturbed, &[], &[1]);
    }
}

/// MPICH derives the side of an intercommunicator from its own rank in MPI_COMM_WORLD.
///
/// A replacement has the worker's rank.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_dies_that_leads_no_side_of_an_intercommunicator() {
    let Some(program) = paths::mpich_program("intercommunicators") else {
        return;
    };
    let job = || job(&program).workers(4);
    let undisturbed = native(job());
    let lines = undisturbed.first_round_lines();
    let outcome = job().kill(Kill::at(1, Trigger::Lines(lines + 3))).run();
    outcome.assert_recovered(&undisturbed, &[], &[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn operators_and_the_environment() {
    conform(paths::mpich_program, &["operators", "environment"]);
}

#[test]
fn a_worker_of_a_program_of_the_standard_abi_dies() {
    conform(
        paths::standard_program,
        &[
            "completion",
            "intercommunicators",
            "topologies",
            "windows",
            "commons",
        ],
    );
}

/// Programs for which MPICH itself gives wrong answers.
///
/// MPICH does not return the status of MPI_Isendrecv, returns no universe size, and crashes in
/// MPI_Pack_external. So two runs under understudy are compared, and the program's checks must
/// succeed.
#[test]
fn what_mpich_answers_otherwise() {
    let mut verdicts = Verdicts::default();
    for name in variants(["point_to_point", "attributes"], 1) {
        let Some(program) = paths::mpich_program(name) else {
            return;
        };
        let layered = job(&program).run();
        let outcome = killed(&program, layered.first_round_lines() + 3);
        verdicts.judge(name, || {
            layered.assert_success();
            layered.assert_checks();
            outcome.assert_recovered(&layered, &[], &[1]);
        });
    }
    verdicts.assert_all_good();
}

fn heat2d(program: &Path) -> Job {
    let job = Job::new(program, &HEAT2D).workers(2).interval("50calls");
    job.of_mpich()
}

#[test]
fn a_worker_of_heat2d_dies_in_the_middle() {
    let Some(program) = paths::mpich_example("heat2d") else {
        return;
    };
    let undisturbed = native(heat2d(&program));
    for (worker, line) in variants([(0, 12), (1, 20)], 1) {
        let outcome = heat2d(&program)
            .kill(Kill::at(worker, Trigger::Lines(line)))
            .run();
        outcome.assert_recovered(&undisturbed, &["heat.field", "heat.log"], &[worker]);
    }
}

/// The user preloads the library for Open MPI, which loads the one for MPICH.
///
/// The program is started by mpiexec, or as the child of a shell.
#[test]
fn a_worker_dies_under_mpichs_own_launcher() {
    let Some(program) = paths::mpich_example("heat2d") else {
        return;
    };
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let ranks = |count: &str, variables: &[(&str, &str)], by: &[&str]| {
        paths::wait_for_turn();
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg(paths::mpich().join("mpiexec"))
            .args(["-n", count]);
        for (name, value) in variables {
            command.args(["-env", name, value]);
        }
        command.args(by).arg(&program).args(["300", "300", "1000"]);
        command
            .current_dir(directory.path())
            .output()
            .expect("timeout runs")
    };
    let undisturbed = ranks("2", &[], &[]);
    let layer = paths::preload_library();
    let protected = [
        ("LD_PRELOAD", layer.to_str().expect("text")),
        ("UNDERSTUDY_INTERVAL", "50calls"),
        ("UNDERSTUDY_FAULT", "kill rank=1 at=commit.end epoch=3"),
    ];
    for by in variants([&[][..], &["sh", "-c", "\"$@\"; exit $?", "sh"]], 1) {
        let outcome = ranks("3", &protected, by);
        let errors = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{by:?}: {errors}");
        assert!(
            errors.contains("worker 1 failed; replaced by rank 2"),
            "{by:?}: {errors}"
        );
        assert!(
            outcome.stdout == undisturbed.stdout,
            "{by:?}: the output differs: {errors}"
        );
    }
}

/// The guardians of the hosts exchange their addresses by mpiexec.
#[test]
fn workers_die_on_several_hosts_under_mpichs_own_launcher() {
    let Some(program) = paths::mpich_example("heat2d").filter(|_| Hosts::are_possible()) else {
        return;
    };
    let spread = || {
        let job = heat2d(&program)
            .hosts(&[1, 2])
            .launched_by(Launcher::Mpiexec);
        job.ucx_by_tcp()
    };
    let fault = "kill rank=1 at=commit.end epoch=3; kill rank=0 at=commit.end epoch=5";
    let outcome = spread().fault(fault).run();
    outcome.assert_recovered(&native(spread()), &["heat.field", "heat.log"], &[1, 0]);
}

/// A host with two workers is lost; sums stay equal on the workers' new host.
#[test]
#[ignore = "a variant: make test-all"]
fn sums_do_not_depend_on_hosts() {
    let Some(program) = paths::mpich_program("orders").filter(|_| Hosts::are_possible()) else {
        return;
    };
    let spread = || {
        let job = Job::new(&program, &["24", "10"])
            .workers(8)
            .spares(2)
            .interval("10calls");
        let job = job
            .of_mpich()
            .hosts(&[4, 2, 4])
            .launched_by(Launcher::Ckptd);
        job.ucx_by_tcp()
    };
    let outcome = spread().lose_host(Trigger::Lines(12), 1).run();
    outcome.assert_success();
    outcome.assert_like(&native(spread()), &[]);
    outcome.assert_replaced(&[4, 5]);
}

/// Unsupported calls return an MPI error or print a message, and are never silent.
#[test]
fn unsupported_features_are_reported() {
    let Some(program) = paths::mpich_program("of_mpich") else {
        return;
    };
    let outcome = job(&program).run();
    outcome.assert_failed();
    let lines = outcome.own_lines();
    for part in [
        "MPI_Win_create_c: a number of more than 31 bits is not supported under protection",
        "MPIX_Stream_create is not supported under protection",
    ] {
        outcome.check(lines.iter().any(|line| line.contains(part)), part);
    }
    let text = String::from_utf8_lossy(&outcome.stdout);
    outcome.check(
        text.contains("MPI_ERR_COUNT"),
        "a displacement unit that is too large is no error",
    );
}

/// Returns a C program that prints the names and values of rows.
fn printing(rows: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "#include <mpi.h>\n#ifdef OPEN_MPI\n#include <mpi-ext.h>\n#endif\n#include \
         <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );
    for (name, _) in rows {
        let expression = match *name {
            "HANDLE" => "sizeof(MPI_Comm)".to_owned(),
            "STATUS" => "sizeof(MPI_Status)".to_owned(),
            "STATUS_SOURCE" => "offsetof(MPI_Status, MPI_SOURCE)".to_owned(),
            "STATUS_TAG" => "offsetof(MPI_Status, MPI_TAG)".to_owned(),
            "STATUS_ERROR" => "offsetof(MPI_Status, MPI_ERROR)".to_owned(),
            name => name.to_owned(),
        };
        let _ = writeln!(
            text,
            "    printf(\"{name} %lld\\n\", (long long)({expression}));"
        );
    }
    text + "    return 0;\n}\n"
}

/// Compares the rows of one column of the ABI table with a compiler's header.
fn assert_the_header_agrees(compiler: PathBuf, column: usize) {
    let rows = understudy_table::ABIS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    // A header has no byte counts, and most headers lack MPI_LB and MPI_UB.
    let is_printed = |row: &Vec<&str>| {
        let is_object = column == 2
            && ["ompi_", "understudy_"]
                .iter()
                .any(|start| row[2].starts_with(start));
        let is_of_the_layer =
            column == 2 && ["MPI_ERR_ABI", "MPI_ERR_ERRHANDLER"].contains(&row[0]);
        !is_object
            && !is_of_the_layer
            && row[column] != "-"
            && !row[column].starts_with('*')
            && row[0] != "STATUS_BYTES"
            && !row[0].ends_with("B")
    };
    let rows: Vec<Vec<&str>> = rows.filter(is_printed).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[column])).collect();
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let (source, program) = (
        directory.path().join("values.c"),
        directory.path().join("values"),
    );
    std::fs::write(&source, printing(&rows)).expect("written");
    let compiled = Command::new(&compiler)
        .arg("-w")
        .arg("-o")
        .args([&program, &source])
        .status();
    assert!(
        compiled.expect("the compiler can be executed").success(),
        "{}",
        compiler.display()
    );
    let output = Command::new(&program).output().expect("an executable");
    let printed = String::from_utf8(output.stdout).expect("text");
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).expect("a number"),
        None => text.parse().expect("a number"),
    };
    assert_eq!(
        printed.lines().count(),
        rows.len(),
        "{}",
        compiler.display()
    );
    for (line, (name, value)) in printed.lines().zip(&rows) {
        let (said, theirs) = line.split_once(' ').expect("a name and a value");
        // MPICH's handles are signed integers.
        let theirs = number(theirs);
        let is_equal = theirs == number(value) || theirs as u32 as i64 == number(value);
        assert!(
            said == *name && is_equal,
            "{name} is {value} in the table and {theirs} in the header"
        );
    }
}

#[test]
fn the_table_of_abis_matches_the_headers() {
    assert_the_header_agrees(PathBuf::from("mpicc"), 2);
    for (compiler, column) in [("mpicc", 3), ("mpicc_abi", 4)] {
        let compiler = paths::mpich().join(compiler);
        match compiler.is_file() {
            true => assert_the_header_agrees(compiler, column),
            false => skip(
                Requirement::Mpich,
                "there is no MPICH in .env/mpich (make setup)",
            ),
        }
    }
}
