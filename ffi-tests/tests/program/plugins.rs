//! Programs that open libraries while they run.
//!
//! The libraries are plug-ins with thread-local data, and Python's extension modules.

use ffi_tests::job::KillScope;
use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::with_open_mpi_4;
use ffi_tests::outcome::Outcome;
use ffi_tests::temporary_directories::lasting_directory;
use ffi_tests::{
    Job, Kill, Random, Requirement, Trigger, Verdicts, paths, run_directory, skip, variants,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WORKERS: u32 = 3;
const ROUNDS: usize = 40;
/// Kills of each program in `make sweep`.
const SWEEP_KILLS: usize = 20;

/// Builds the libraries that the program `plugins` opens.
fn build_libraries(directory: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/plugins");
    let compile = |source: &str, library: &str, more: &[&str]| {
        let mut command = Command::new(if source.ends_with("cpp") {
            "g++"
        } else {
            "gcc"
        });
        command.args(["-shared", "-fPIC", "-O1", "-o"]);
        command
            .arg(directory.join(library))
            .arg(sources.join(source));
        command.arg("-L").arg(directory).args(more);
        assert!(
            command.status().is_ok_and(|status| status.success()),
            "{source} cannot be compiled"
        );
    };
    compile("helper.c", "libhelper.so", &[]);
    let needs = ["-lhelper", "-Wl,-rpath,$ORIGIN"];
    compile("counter.c", "first.so", &needs);
    compile("counter.c", "second.so", &needs);
    // Older linkers align segments to 2 MiB.
    compile(
        "counter.c",
        "third.so",
        &[&needs[..], &["-Wl,-z,max-page-size=0x200000"]].concat(),
    );
    compile("thrower.cpp", "fourth.so", &[]);
}

/// Directory of the libraries, which are built once.
fn libraries() -> PathBuf {
    run_directory::filled_once("plugins", build_libraries)
}

fn plugins(directory: &Path, rounds: usize, more: &[&str]) -> Job {
    let (directory, rounds) = (directory.to_string_lossy(), rounds.to_string());
    let arguments = [&[&*directory, &rounds, "4"], more].concat();
    Job::new(paths::test_program("plugins"), &arguments)
        .workers(WORKERS)
        .interval("3calls")
}

fn opens_plugins() -> Job {
    plugins(&libraries(), ROUNDS, &[])
}

/// Makes a job of a Python program that imports modules while it runs.
///
/// Returns `None`, and prints the reason, if the modules are not installed.
fn imports(modules: &str) -> Option<Job> {
    python("imports.py", &[modules, &ROUNDS.to_string(), "0.005"])
}

/// Makes a job of a Python program with these arguments.
fn python(script: &str, arguments: &[&str]) -> Option<Job> {
    let script = format!("{}/programs/{script}", env!("CARGO_MANIFEST_DIR"));
    in_python(|python| {
        Job::new(
            python.join("python3"),
            &[&[&script[..]], arguments].concat(),
        )
    })
}

/// Makes a job that finds mpi4py and numpy; `make` gets the directory of the interpreter.
fn in_python(make: impl FnOnce(&Path) -> Job) -> Option<Job> {
    let python = paths::workspace().join(".env/python/bin");
    if !python.join("python3").is_file() {
        skip(
            Requirement::Python,
            "mpi4py and numpy are not installed; `make python` installs them",
        );
        return None;
    }
    let library = paths::libmpi();
    let directory = library
        .parent()
        .unwrap_or(&library)
        .to_string_lossy()
        .into_owned();
    let job = make(&python)
        .workers(WORKERS)
        .interval("5calls")
        .env("LD_LIBRARY_PATH", &directory);
    Some(
        job.env("OPENBLAS_NUM_THREADS", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    )
}

/// Kills a worker at a random moment in each of `times` runs.
///
/// Without `FFI_TESTS_ALL`, only the first of the runs is made.
fn kill_often(name: &str, make: impl Fn() -> Option<Job>, times: usize) {
    let Some(job) = make() else { return };
    let undisturbed = native(job);
    undisturbed.assert_success();
    let mut random = Random::announced(name);
    let mut verdicts = Verdicts::default();
    for time in variants(0..times, 1) {
        let worker = random.below(u64::from(WORKERS)) as u32;
        // The last tenth is excluded, so that the process still exists.
        let part = ROUNDS * 9 / 10 / times;
        let line = 1 + time * part + random.below(part.max(1) as u64) as usize;
        let delay = Duration::from_micros(random.below(8000));
        let what = format!("{name}: worker {worker} killed {delay:?} after line {line}");
        let kill = Kill::at(worker, Trigger::Lines(line)).after(delay);
        let Some(outcome) = make().map(|job| job.kill(kill).run()) else {
            return;
        };
        verdicts.judge(&what, || {
            outcome.assert_success();
            outcome.assert_same_lines(&undisturbed);
            outcome.assert_nothing_left();
            if !outcome.had_finalized(worker) {
                outcome.assert_taken_over(&[worker]);
            }
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn libraries_opened_during_the_run_are_restored_at_their_addresses() {
    kill_often("plugins", || Some(opens_plugins()), 6);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_replacement_rolls_back_past_a_library_that_it_has_opened() {
    let undisturbed = native(opens_plugins());
    // After the second failure, the replacement of rank 1 rolls back to the checkpoint that rank 1
    // had saved.
    let fault = "kill rank=1 at=commit.end epoch=4 delay=2ms; kill rank=0 at=resume delay=9ms";
    let outcome = opens_plugins().spares(2).fault(fault).run();
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    outcome.check(
        outcome.takeovers().len() == 2,
        "not both failed workers were replaced",
    );
}

/// Open MPI 4 opens its components as libraries.
///
/// After a rollback, ld.so frees scopes of these libraries at the program's next dlclose.
#[test]
fn survivors_of_open_mpi_4_roll_back_and_repeat_a_close() {
    let Some(job) = with_open_mpi_4(opens_plugins()) else {
        return;
    };
    let undisturbed = native(with_open_mpi_4(opens_plugins()).expect("Open MPI 4 is installed"));
    // The failure is in round 18; all workers have closed a library in round 17, and the last
    // checkpoint is before round 15.
    let outcome = job.fault("kill rank=1 at=call:20").run();
    outcome.assert_all_recovered(&undisturbed, &[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn survivors_roll_back_to_before_a_close() {
    let undisturbed = native(opens_plugins());
    // Right after this checkpoint, the library that was opened in round 12 is closed and reopened.
    let outcome = opens_plugins()
        .fault("kill rank=1 at=commit.end epoch=10 delay=14ms")
        .run();
    outcome.assert_all_recovered(&undisturbed, &[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_restarted_job_opens_its_libraries() {
    let undisturbed = native(opens_plugins());
    let job = || opens_plugins().disk();
    let at = Trigger::OnDisk {
        workers: WORKERS,
        epoch: 5,
    };
    let mut ended = job().killed_as_a_whole(at, KillScope::Everything).run();
    let outcome = job().env("UNDERSTUDY_RESTART", "1").run_after(&mut ended);
    outcome.assert_success();
    let last = |outcome: &Outcome| {
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let mut lines: Vec<String> = text.lines().rev().take(8).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    outcome.check(
        last(&outcome) == last(&undisturbed),
        "the last lines differ from those of an undisturbed run",
    );
}

#[test]
fn threads_use_the_thread_local_data_of_a_library_opened_late() {
    let job = || plugins(&libraries(), 3, &["threads"]);
    let undisturbed = native(job());
    // The job runs with checkpoints between the threads' calls, and without checkpoints.
    for interval in variants(["1calls", "100s"], 1) {
        let outcome = job().interval(interval).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
    }
}

#[test]
fn a_library_with_a_removed_file_is_refused_at_once() {
    let job = |directory: &Path| plugins(directory, 20, &["remove"]);
    let [first, second] = [(), ()].map(|()| lasting_directory());
    build_libraries(&first);
    build_libraries(&second);
    let undisturbed = job(&first).native().run();
    let outcome = job(&second).run();
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    let lines = outcome.own_lines();
    outcome.check(
        lines.len() == 1
            && lines[0].contains("first.so")
            && lines[0].contains("removed")
            && lines[0].contains("unprotected"),
        "not one line names the removed library",
    );
}

#[test]
fn an_interpreter_imports_modules_while_it_runs() {
    kill_often("standard", || imports("standard"), 3);
}

#[test]
#[ignore = "a variant: make test-all"]
fn numpy_is_imported_while_the_program_runs() {
    kill_often("numpy", || imports("numpy"), 3);
}

/// Mpi4py requests MPI_THREAD_MULTIPLE, and is granted a level at which threads call in turn.
#[test]
fn threads_of_an_interpreter_call_mpi_and_change_files() {
    let steps = ROUNDS.to_string();
    kill_often("threaded", || python("threaded.py", &[&steps, "0.005"]), 3);
}

/// A worker fails while its event loop monitors socket pairs that contain messages (epoll).
#[test]
fn tasks_of_an_event_loop_continue() {
    let steps = ROUNDS.to_string();
    kill_often("event_loop", || python("event_loop.py", &[&steps]), 3);
}

/// A worker fails that has TCP listeners and both ends of connections over loopback.
#[test]
#[ignore = "a variant: make test-all"]
fn servers_of_an_event_loop_continue() {
    let steps = ROUNDS.to_string();
    kill_often(
        "loopback_server",
        || python("loopback_server.py", &[&steps]),
        3,
    );
}

/// Makes a job of products and eigenvalues by a BLAS with two threads.
///
/// The threads exist before MPI_Init.
fn solver(is_script: bool) -> Option<Job> {
    let arguments = ["20", "0.005"];
    let as_script = |python: &Path| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/solver.py");
        let path = std::env::var("PATH").unwrap_or_default();
        Job::new(script, &arguments).env("PATH", &format!("{}:{path}", python.display()))
    };
    let job = match is_script {
        true => in_python(as_script),
        false => python("solver.py", &arguments),
    };
    Some(job?.workers(2).env("OPENBLAS_NUM_THREADS", "2"))
}

/// A worker fails in `mpirun solver.py` and in `mpirun python3 solver.py`.
#[test]
#[ignore = "a variant: make test-all"]
fn numpy_computes_with_the_threads_of_its_blas() {
    let mut verdicts = Verdicts::default();
    for (is_script, worker, line) in variants(
        [(true, 1, 4), (false, 0, 6), (false, 1, 9), (true, 0, 12)],
        1,
    ) {
        let (Some(plain), Some(layered)) = (solver(is_script), solver(is_script)) else {
            return;
        };
        let kill = Kill::at(worker, Trigger::Lines(line)).after(Duration::from_millis(4));
        let outcome = layered.kill(kill).run();
        verdicts.judge(
            &format!("a script: {is_script}; worker {worker}, line {line}"),
            || {
                outcome.assert_all_recovered(&native(plain), &[worker]);
            },
        );
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "many kills: make sweep"]
fn libraries_opened_during_the_run_are_restored_at_any_moment() {
    kill_often("plugins", || Some(opens_plugins()), SWEEP_KILLS);
    kill_often("standard", || imports("standard"), SWEEP_KILLS);
    kill_often("numpy", || imports("numpy"), SWEEP_KILLS);
}
