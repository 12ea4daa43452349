//! `understudy run --output FILE`: FILE has each byte once, after recoveries and restarts.

use super::time_limits::{Processes, STOPPED, once_on_disk};
use crate::launchers::run::work;
use ffi_tests::command::{CommandResult, UnderstudyCommand};
use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Requirement, paths, processes, skip};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const WORKERS: u32 = 3;
const FILE: &str = "out.txt";
const HEAT: [&str; 5] = ["100", "100", "3000", "--print-every", "30"];
/// Every worker prints this number of lines, one each millisecond at most.
const CHATTER: [&str; 2] = ["2500", "1000"];

/// Prepares `understudy run OPTIONS --output FILE --disk epochs -- PROGRAM ARGUMENTS`.
fn command(work: &Path, program: &Path, arguments: &[&str], options: &[&str]) -> UnderstudyCommand {
    let program = program.to_string_lossy();
    let run = ["run", "-n", "3", "--spares", "1", "--output", FILE];
    let disk = ["--disk", "epochs", "--restart=auto"];
    let words = [&run[..], &disk, options, &["--", &program], arguments].concat();
    let command = UnderstudyCommand::new(work, &words).env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.env(processes::MARK, &work.to_string_lossy())
}

fn output(work: &Path) -> Vec<u8> {
    std::fs::read(work.join(FILE)).expect("the file is there")
}

/// Fails unless the files of the workers and the checkpoints are gone.
#[track_caller]
fn assert_removed(work: &Path) {
    let is_there = |name: &str| std::fs::read_dir(work.join(name)).is_ok_and(|it| it.count() > 0);
    let left: Vec<_> = ["out.txt.workers", "epochs"]
        .into_iter()
        .filter(|it| is_there(it))
        .collect();
    assert!(left.is_empty(), "{left:?} are left");
}

/// Runs a leg that SIGTERM stops after this number of checkpoints on disk.
fn run_stopped(work: &Path, checkpoints: u64, fault: &[&str]) -> CommandResult {
    let before = checkpoints_on_disk(&work.join("epochs"), WORKERS).pop();
    let epoch = before.unwrap_or(0).saturating_add(checkpoints);
    let options = [
        &["--interval", "60calls", "--checkpoint-on", "TERM@60s"],
        fault,
    ]
    .concat();
    let mut is_due = once_on_disk(work, epoch);
    command(work, &paths::example("heat2d"), &HEAT, &options)
        .during(move |launcher| {
            if is_due() {
                processes::send(launcher.id(), Signal::TERM);
            }
        })
        .run()
}

/// Worker 0 prints, and is killed in the first leg between two checkpoints.
#[test]
fn the_output_file_of_three_legs_is_that_of_an_undisturbed_run() {
    let work = work();
    let path = work.path();
    let undisturbed = native(Job::new(paths::example("heat2d"), &HEAT).workers(WORKERS));
    let fault = ["--fault", "kill rank=0 at=call:700"];
    for (checkpoints, fault) in [(4, &fault[..]), (3, &[])] {
        let leg = run_stopped(path, checkpoints, fault);
        leg.assert(STOPPED, &["[stopped-with-checkpoint]"]);
        assert_eq!(leg.stderr.contains("[recovered]"), !fault.is_empty());
        let output = output(path);
        let is_begin = !output.is_empty() && undisturbed.stdout.starts_with(&output);
        assert!(is_begin && leg.stdout.is_empty(), "{}", leg.stderr);
    }
    let last = run_stopped(path, u64::MAX, &[]);
    last.assert(0, &["[restarted]", "its standard output continues in"]);
    assert!(output(path) == undisturbed.stdout, "{}", last.stderr);
    assert_removed(path);
}

/// Lines of each rank of `chatter`, in their order.
fn by_rank(output: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(output).lines() {
        let rank = line.split(" of ").next().unwrap_or_default();
        lines
            .entry(rank.to_owned())
            .or_default()
            .push(line.to_owned());
    }
    lines
}

/// Kills all processes of the job between two checkpoints.
fn run_killed(work: &Path, program: &Path, epoch: u64) -> CommandResult {
    let options = ["--interval", "200calls"];
    let (jobs, mut is_due) = (Processes::of(work), once_on_disk(work, epoch));
    command(work, program, &CHATTER, &options)
        .during(move |_| {
            if is_due() {
                jobs.signal_all(Signal::KILL);
            }
        })
        .run()
}

/// All workers print at the same time, and the whole job is killed twice.
#[test]
fn the_output_file_of_a_killed_job_has_every_line_of_every_worker_once() {
    let work = work();
    let path = work.path();
    let program = paths::test_program("chatter");
    let undisturbed = native(Job::new(&program, &CHATTER).workers(WORKERS));
    for epoch in [2, 5] {
        let killed = run_killed(path, &program, epoch);
        assert_eq!(killed.code(), None, "{}", killed.stderr);
    }
    let last = command(path, &program, &CHATTER, &["--interval", "200calls"]).run();
    last.assert(0, &["[restarted]"]);
    let output = output(path);
    assert_eq!(output.len(), undisturbed.stdout.len(), "{}", last.stderr);
    assert!(
        by_rank(&output) == by_rank(&undisturbed.stdout),
        "{}",
        last.stderr
    );
    assert_removed(path);
}

/// A start that is refused leaves the output of the earlier start alone.
#[test]
#[ignore = "a variant: make test-all"]
fn another_output_file_is_refused_and_the_earlier_output_is_kept() {
    let work = work();
    let path = work.path();
    let program = paths::example("heat2d");
    let first = run_stopped(path, 4, &[]);
    first.assert(STOPPED, &["[stopped-with-checkpoint]"]);
    let before = output(path);
    let heat = program.to_string_lossy();
    let start = |option: &[&str]| {
        let run = ["run", "-n", "3", "--disk", "epochs"];
        let words = [&run[..], option, &["--", &heat], &HEAT].concat();
        UnderstudyCommand::new(path, &words).run()
    };
    let refused = ffi_tests::REFUSED;
    start(&["--restart"]).assert(refused, &["[other-output]", "no --output"]);
    start(&["--restart", "--output", "other.txt"]).assert(refused, &["[other-output]"]);
    start(&["--output", FILE]).assert(refused, &["[earlier-checkpoints]"]);
    assert!(
        output(path) == before,
        "the output of the first start has changed"
    );
    let last = run_stopped(path, u64::MAX, &[]);
    last.assert(0, &["[restarted]"]);
    let undisturbed = native(Job::new(&program, &HEAT).workers(WORKERS));
    assert!(output(path) == undisturbed.stdout, "{}", last.stderr);
    assert_removed(path);
}

#[test]
fn an_output_file_that_cannot_be_cut_or_written_is_refused() {
    let work = work();
    let path = work.path();
    let run = |file: &str| {
        UnderstudyCommand::new(path, &["run", "-n", "2", "--output", file, "--", "true"]).run()
    };
    run("/dev/null").assert(2, &["--output: /dev/null is not a regular file"]);
    run(".").assert(2, &["is not a regular file"]);
    run("missing/out.txt").assert(125, &["--output:", "cannot be written", "No such file"]);
}

/// The worker that is replaced prints.
#[test]
#[ignore = "a variant: make test-all"]
fn the_output_file_is_exact_under_mpirun() {
    let work = work();
    let path = work.path();
    let program = paths::example("heat2d");
    let fault = "kill rank=0 at=call:700; kill rank=1 at=call:1700";
    let options = [
        "--interval",
        "60calls",
        "--launcher",
        "mpirun",
        "--fault",
        fault,
    ];
    let ran = command(path, &program, &HEAT, &options).run();
    ran.assert(0, &["worker 0 failed", "worker 1 failed"]);
    let undisturbed = native(Job::new(&program, &HEAT).workers(WORKERS));
    assert!(
        ran.stdout.is_empty() && output(path) == undisturbed.stdout,
        "{}",
        ran.stderr
    );
    assert_removed(path);
}

/// The file system of the output has room for a part of it.
#[test]
#[ignore = "a variant: make test-all"]
fn an_output_file_on_a_full_disk_is_reported_and_the_status_is_74() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip(Requirement::Namespaces, "mounts need root");
    }
    paths::wait_for_turn();
    let work = work();
    let script = format!(
        "mkdir full; mount -t tmpfs -o size=200k tmpfs full; {} run -n 2 --spares 0 --output \
         full/out.txt -- {} 2000; status=$?; ls full/out.txt.workers; exit $status",
        paths::product("understudy").display(),
        paths::test_program("chatter").display()
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &script]);
    shell.env("TMPDIR", work.path()).current_dir(work.path());
    let ran = shell.output().expect("there is a shell");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(74), "{errors}");
    assert!(errors.contains("[output-file-not-written]"), "{errors}");
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "w00000\nw00001\n",
        "{errors}"
    );
}
