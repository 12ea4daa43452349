//! Programs that load the MPI library late, and wrappers of programs.
//!
//! The programs are protected, or a line reports that they are not protected.

use ffi_tests::native_runs::native;
use ffi_tests::plain_commands::assert_indifferent;
use ffi_tests::{Job, Kill, Trigger, fault_at_commit, paths, variants};
use std::path::{Path, PathBuf};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/late.py");

fn interpreter() -> PathBuf {
    paths::on_path("python3").expect("there is a python3")
}

fn python(library: &Path) -> Job {
    Job::new(
        interpreter(),
        &[SCRIPT, &library.to_string_lossy(), "60", "0.01"],
    )
}

#[test]
fn an_interpreter_that_opens_libmpi_is_protected() {
    let library = paths::libmpi();
    let undisturbed = native(python(&library));
    undisturbed.assert_success();
    for (worker, job) in [(0, python(&library)), (2, by_script("python3", &library))] {
        let outcome = job.kill(Kill::at(worker, Trigger::Lines(10))).run();
        outcome.assert_all_recovered(&undisturbed, &[worker]);
    }
}

/// The order in which an interpreter loads libraries before MPI_Init depends on its hash seed.
///
/// A replacement must load the libraries in the order of the failed worker.
#[test]
fn an_interpreter_has_the_same_order_of_sets_in_all_ranks() {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/hashes.py");
    let library = paths::libmpi();
    let job = || {
        let arguments = [SCRIPT, &library.to_string_lossy(), "60"];
        Job::new(interpreter(), &arguments).interval("5calls")
    };
    let undisturbed = native(job());
    undisturbed.assert_success();
    for worker in variants([2, 0], 1) {
        let fault = fault_at_commit(worker, 4);
        let outcome = job().fault(&fault).run();
        outcome.assert_all_recovered(&undisturbed, &[worker]);
    }
}

/// Starts the interpreter from a shell, which waits for it.
fn by_script(interpreter: &str, library: &Path) -> Job {
    let command = format!(
        "{interpreter} {SCRIPT} {} 60 0.01; exit $?",
        library.display()
    );
    Job::new("/bin/sh", &["-c", &command])
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_wrapper_gives_its_program_what_it_needs() {
    let chatter = paths::test_program("chatter");
    let wrapped = |prefix: &str| {
        let command = format!("{prefix} {} 40 10000", chatter.display());
        Job::new("/bin/sh", &["-c", &command])
    };
    let undisturbed = native(wrapped("echo one >&2;"));
    for prefix in [
        "echo one >&2;",
        "ls / > /dev/null; exec",
        "exec env SOMETHING=1",
    ] {
        let outcome = wrapped(prefix).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
        outcome.check(outcome.last_epoch(0) >= 1, "it was not protected");
        outcome.assert_nothing_left();
    }
}

#[test]
fn an_unprotected_child_of_a_script_is_reported() {
    let place = tempfile::tempdir().expect("there is room for temporary files");
    let unknown = place.path().join("unknown");
    std::fs::copy(interpreter(), &unknown).expect("the interpreter can be copied");
    let job = || {
        by_script(&unknown.to_string_lossy(), &paths::libmpi())
            .workers(2)
            .spares(1)
    };
    let unprotected = job().run();
    unprotected.assert_success();
    let lines = unprotected.own_lines();
    unprotected.check(
        lines.len() == 1 && lines[0].contains("UNDERSTUDY_LATE=1"),
        "not one line has the setting that protects the program",
    );
    unprotected.assert_same_lines(&native(job().workers(3)));

    // The launcher ends the job, whether the killed process is the interpreter or the script.
    let killed = job().kill(Kill::at(1, Trigger::Lines(10))).run();
    killed.assert_failed();

    let stopped = job().env("UNDERSTUDY_REQUIRE", "1").run();
    stopped.assert_failed();
    stopped.check(stopped.stdout.is_empty(), "the program has run");

    let prepared = job().env("UNDERSTUDY_LATE", "1").run();
    prepared.assert_success();
    // The shell stays between the launcher and the program.
    prepared.assert_single_line(&["has started sh", "exec"]);
    prepared.assert_same_lines(&native(job().workers(2)));
}

/// Environment of the first of three ranks, as set by the launcher.
const RANK: [(&str, &str); 7] = [
    ("UNDERSTUDY_SPARES", "1"),
    ("OMPI_COMM_WORLD_SIZE", "3"),
    ("OMPI_COMM_WORLD_RANK", "0"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
    ("PMIX_RANK", "0"),
    ("PMIX_NAMESPACE", "late@1"),
    ("OMPI_MCA_mpi_ft_enable", "1"),
];

/// A script sees its arguments once, although a rank executes its program a second time.
///
/// Each time, the kernel puts the interpreter and the script's name in front of the arguments.
#[test]
fn a_script_gets_its_arguments_once() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let script = |name: &str, text: &str| {
        let path = work.path().join(name);
        paths::script(&path, text);
        path.to_string_lossy().into_owned()
    };
    const PRINT_ARGUMENTS: &str = "printf '<%s>' \"$0\" \"$@\"; cat /proc/$$/comm\n";
    let shell = script("a shell", &format!("#!/bin/sh\n{PRINT_ARGUMENTS}"));
    let with_option = script("option", &format!("#!/bin/sh -eu\n{PRINT_ARGUMENTS}"));
    let nested = script("nested", &format!("#!{with_option} one two\nnever read\n"));
    let python = script(
        "python",
        "#!/usr/bin/env python3\nimport sys\nprint(sys.argv)\n",
    );
    let link = work.path().join("link").to_string_lossy().into_owned();
    std::os::unix::fs::symlink(&shell, &link).unwrap();
    for path in [&shell, &with_option, &nested, &python, &link] {
        assert_indifferent(path, &[], &RANK);
        assert_indifferent(path, &["a", "b c", path, ""], &RANK);
        let (directory, name) = path.rsplit_once('/').unwrap();
        for exec in ["exec", ""] {
            let relative = format!("cd {directory}; {exec} './{name}' './{name}' a");
            assert_indifferent("/bin/sh", &["-c", &relative], &RANK);
        }
    }
    // A program that is not a script, although its first argument is its name.
    assert_indifferent("/bin/echo", &["/bin/echo", "a"], &RANK);
}
