//! Libraries that wrap MPI procedures keep their place between the program and understudy.

use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::with_open_mpi_4;
use ffi_tests::{Job, Kill, Launcher, Outcome, Requirement, Trigger, skip, variants};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A profiling library and a program, which may be linked with the library.
struct Profiled {
    library: PathBuf,
    program: PathBuf,
    _directory: tempfile::TempDir,
}

impl Profiled {
    fn new(is_linked: bool) -> Profiled {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/profiler.c");
        let (library, program) = (
            directory.path().join("libcounting.so"),
            directory.path().join("counted"),
        );
        let compile = |output: &Path, arguments: &[&str]| {
            let mut command = Command::new("mpicc");
            command
                .arg("-O1")
                .arg("-o")
                .arg(output)
                .arg(source)
                .args(arguments);
            let status = command.status();
            assert!(
                status.expect("there is an mpicc on the PATH").success(),
                "mpicc fails"
            );
        };
        compile(&library, &["-DLIBRARY", "-shared", "-fPIC", "-ldl"]);
        let there = directory.path().to_string_lossy();
        let linked = [
            "-L",
            &there,
            "-Wl,--no-as-needed",
            "-lcounting",
            &format!("-Wl,-rpath,{there}"),
        ];
        compile(&program, if is_linked { &linked } else { &[] });
        Profiled {
            library,
            program,
            _directory: directory,
        }
    }

    fn job(&self) -> Job {
        Job::new(&self.program, &[])
    }
}

/// Fails unless the profile and the program's output are undisturbed.
fn assert_equal_report(outcome: &Outcome, undisturbed: &Outcome) {
    outcome.assert_success();
    outcome.assert_same_lines(undisturbed);
    let report = |outcome: &Outcome| {
        outcome
            .file("profile")
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    assert_eq!(report(outcome).as_deref(), Some("216 calls\n"));
    assert_eq!(report(outcome), report(undisturbed));
}

#[test]
fn a_profiling_library_sees_the_calls_of_the_program() {
    let profiled = Profiled::new(true);
    let undisturbed = native(profiled.job());
    undisturbed.check(
        String::from_utf8_lossy(&undisturbed.stdout).contains("profile of rank 3: 54 calls"),
        "the run without understudy is not profiled",
    );
    assert_equal_report(&profiled.job().run(), &undisturbed);
    let killed = profiled.job().kill(Kill::at(1, Trigger::Lines(25))).run();
    assert_equal_report(&killed, &undisturbed);
    killed.assert_taken_over(&[1]);
}

/// Neither guardians nor node managers are profiled.
///
/// Reports contain nothing that a profiler writes when such a process exits.
#[test]
fn a_profiling_library_that_is_preloaded_is_in_the_program_only() {
    let profiled = Profiled::new(false);
    let preloaded = || profiled.job().preload(&profiled.library);
    let undisturbed = native(preloaded());
    for launcher in [Launcher::Mpirun, Launcher::Ckptd] {
        let job = preloaded().launched_by(launcher);
        let killed = job.kill(Kill::at(2, Trigger::Lines(25))).run();
        assert_equal_report(&killed, &undisturbed);
        killed.assert_taken_over(&[2]);
        let names = killed
            .file("profiled")
            .expect("the library has been loaded");
        let names = String::from_utf8_lossy(&names).into_owned();
        let is_one =
            |line: &str| line == "counted 0" || (launcher == Launcher::Ckptd && line == "ckptd 0");
        killed.check(
            names.lines().all(is_one),
            &format!("processes that were profiled: {names}"),
        );
        let launchers = names
            .lines()
            .filter(|line| line.starts_with("ckptd"))
            .count();
        killed.check(
            launchers <= 1,
            &format!("processes that were profiled: {names}"),
        );
    }
}

/// Number of records of each kind and rank in a trace of EZTrace.
fn traced(outcome: &Outcome) -> BTreeMap<String, usize> {
    let mut command = Command::new("otf2-print");
    command.arg(outcome.work().join("counted_trace/eztrace_log.otf2"));
    let printed = command
        .output()
        .expect("otf2-print is installed with EZTrace");
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&printed.stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        let is_record =
            matches!(words[..], [kind, place] if kind.len() > 2 && place.parse::<u64>().is_ok());
        if is_record {
            *counts.entry(words.join(" of ")).or_default() += 1;
        }
    }
    counts
}

/// Thread functions of EZTrace must not be called before its constructor has run.
///
/// The constructor of EZTrace runs later than understudy's.
#[test]
fn eztrace_has_the_trace_of_an_undisturbed_run() {
    const DIRECTORY: &str = "/usr/lib/x86_64-linux-gnu";
    let libraries = ["lib", "openmpi"].map(|name| format!("{DIRECTORY}/libeztrace-{name}.so"));
    if !libraries.iter().all(|library| Path::new(library).exists()) {
        return skip(
            Requirement::Libraries,
            "there is no EZTrace; try make libraries",
        );
    }
    let profiled = Profiled::new(false);
    let job = || {
        let job = profiled.job().env("EZTRACE_TRACE", "openmpi");
        with_open_mpi_4(job.preload(Path::new(&libraries.join(":"))))
    };
    let Some(undisturbed) = job().map(native) else {
        return;
    };
    let expected = traced(&undisturbed);
    undisturbed.check(expected.len() > 8, &format!("the trace has {expected:?}"));
    for (worker, lines) in variants([(2, 25), (0, 12), (3, 40)], 1) {
        let Some(job) = job() else { return };
        let killed = job.kill(Kill::at(worker, Trigger::Lines(lines))).run();
        killed.assert_success();
        killed.assert_same_lines(&undisturbed);
        killed.assert_replaced(&[worker]);
        assert_eq!(traced(&killed), expected);
    }
}
