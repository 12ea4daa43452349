//! Jobs under a plain mpirun, which has no options for understudy.
//!
//! The processes that the launcher starts are guardians, which survive the ranks.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{HEAT2D, heat2d};
use ffi_tests::{
    Job, Kill, KillScope, Launcher, Requirement, Trigger, paths, processes, skip, variants,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn job() -> Job {
    heat2d().job().launched_by(Launcher::Mpirun)
}

#[test]
fn a_spare_replaces_a_failed_worker() {
    let outcome = heat2d().assert_undisturbed(job().kill(Kill::at(2, Trigger::Lines(15))));
    outcome.check(outcome.takeovers() == [2], "not only worker 2 was replaced");
}

#[test]
fn all_ranks_may_die_at_once_and_there_need_be_no_spare() {
    let job = job()
        .spares(0)
        .killed_as_a_whole(Trigger::Lines(15), KillScope::Ranks);
    let outcome = heat2d().assert_undisturbed(job);
    let taken = outcome.takeovers();
    outcome.check(
        taken.len() == 4,
        &format!("not all four workers were replaced: {taken:?}"),
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_rank_may_die_before_and_in_mpi_init() {
    for point in ["boot.begin", "init.begin", "commit.begin epoch=1"] {
        heat2d().assert_undisturbed(job().fault(&format!("kill rank=1 at={point}")));
    }
}

#[test]
fn a_guardian_that_dies_under_our_own_launcher_is_a_death_of_its_rank() {
    let kill_guardian = |ranks: &std::collections::BTreeMap<u32, processes::Process>| {
        let printed = ranks
            .values()
            .next()
            .and_then(|rank| std::fs::read(format!("/proc/{}/cwd/../stdout", rank.pid)).ok());
        let lines = printed.map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count());
        let guardian = ranks.get(&1).filter(|_| lines > 12).map(|rank| rank.parent);
        guardian.is_some_and(processes::kill)
    };
    let job = heat2d().job().launched_by(Launcher::Ckptd);
    let outcome = heat2d().assert_undisturbed(job.watch(kill_guardian));
    outcome.check(outcome.takeovers() == [1], "not only worker 1 was replaced");
}

/// Writes a script into the test's directory.
fn script(place: &Path, text: &str) -> std::path::PathBuf {
    let path = place.join("script");
    paths::script(&path, &format!("#!/bin/bash\n{text}\n"));
    path
}

#[test]
fn a_script_may_start_the_program() {
    let place = tempfile::tempdir().expect("a directory");
    let case = heat2d();
    let undisturbed = native(case.job());
    for start in variants(["\"$@\"", "exec \"$@\""], 1) {
        let script = script(place.path(), start);
        let job = job().started_by(&script);
        let outcome = job.fault("kill rank=2 at=commit.end epoch=3").run();
        outcome.assert_success();
        outcome.assert_like(&undisturbed, case.files);
        outcome.assert_nothing_left();
        outcome.check(outcome.takeovers() == [2], "not only worker 2 was replaced");
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_script_may_start_one_program_after_the_other() {
    let place = tempfile::tempdir().expect("a directory");
    let script = script(place.path(), "\"$@\"; \"$@\"");
    let chatter =
        || Job::new(paths::test_program("chatter"), &["20"]).launched_by(Launcher::Mpirun);
    let twice = |job: Job| job.started_by(&script).run();
    let outcome = twice(chatter());
    outcome.assert_success();
    outcome.assert_same_lines(&twice(chatter().native()));
    outcome.assert_nothing_left();
    // With a failed rank, the second program would start with one rank fewer.
    let outcome = twice(
        chatter()
            .interval("10ms")
            .fault("kill rank=1 at=commit.end epoch=1"),
    );
    let code = outcome.status.and_then(|ended| ended.code());
    outcome.check(code == Some(75), "the status differs");
    let is_explained = outcome.stderr.contains("start each program by itself");
    outcome.check(is_explained, "no line explains the status");
}

#[test]
#[ignore = "a variant: make test-all"]
fn what_is_no_mpi_program_is_as_it_is() {
    let place = tempfile::tempdir().expect("a directory");
    let script = script(place.path(), "echo rank $OMPI_COMM_WORLD_RANK; exit $1");
    for status in variants(["3", "0"], 1) {
        let job = Job::new(&script, &[status]).launched_by(Launcher::Mpirun);
        let outcome = job.run();
        let code = outcome.status.and_then(|ended| ended.code());
        outcome.check(code == status.parse().ok(), "the status differs");
        if status == "0" {
            let lines = String::from_utf8_lossy(&outcome.stdout).lines().count();
            outcome.check(lines == 5, "not every process has printed a line");
        }
        outcome.assert_nothing_left();
    }
}

/// A guardian receives SIGTERM before the other guardians have started; it exits.
///
/// The other guardians may never start, since the signal may have killed them.
#[test]
fn a_guardian_that_is_terminated_before_its_job_has_begun_exits() {
    let job = format!("prterun-test-{}@1", std::process::id());
    let variables = [
        ("PMIX_NAMESPACE", job.as_str()),
        ("PMIX_RANK", "0"),
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("UNDERSTUDY_SPARES", "0"),
    ];
    let mut guardian = Command::new(paths::ckptd());
    guardian
        .args(["guardian", "--", "/bin/true", "true"])
        .envs(variables);
    let mut guardian = guardian.spawn().unwrap();
    let is_there = || !left(&job).is_empty();
    let began = Instant::now();
    while !is_there() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the guardian creates no file"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // The guardian installs its signal handlers within this time.
    std::thread::sleep(Duration::from_secs(1));
    let pid = Pid::from_child(&guardian);
    kill_process(pid, Signal::TERM).unwrap();
    let status = guardian.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "the guardian has waited for the other one"
    );
    assert!(!is_there(), "files are left in shared memory");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_program_that_is_refused_runs_under_its_launcher() {
    let chatter = || Job::new(paths::test_program("chatter"), &["20"]);
    // The runtime detects the wrong setting when the guardians have already been started.
    let outcome = chatter()
        .launched_by(Launcher::Mpirun)
        .env("UNDERSTUDY_INTERVAL", "soon")
        .run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(chatter().workers(5)));
    outcome.assert_nothing_left();
    let lines = outcome.own_lines();
    outcome.check(
        lines.len() == 1 && lines[0].contains("unprotected"),
        "not one line reports the missing protection",
    );
}

/// Returns a job under `ckptd launch`, which is the first process of a container.
///
/// The kernel kills all other processes of the container when the first process exits. The
/// container shares the host's /dev/shm, and the name of the job is the same in each container.
fn contained(work: &Path, iterations: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "60",
        "unshare",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command.args([
        "sh",
        "-c",
        "hostname \"$1\"; shift; exec \"$@\"",
        "sh",
        &container(),
    ]);
    command
        .arg(paths::ckptd())
        .args(["launch", "-n", "4", "--spares", "1", "--preload"]);
    command
        .arg(paths::preload_library())
        .arg("--")
        .arg(paths::example("heat2d"));
    command
        .args(&HEAT2D[..2])
        .arg(iterations)
        .args(&HEAT2D[3..]);
    command
        .env("UNDERSTUDY_INTERVAL", "50calls")
        .env("OMPI_MCA_btl", "self,sm")
        .env("OMPI_MCA_mpi_yield_when_idle", "1");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .current_dir(work);
    command
}

fn container() -> String {
    format!("container{}", std::process::id())
}

/// Files in shared memory of jobs whose names contain `part`.
fn left(part: &str) -> Vec<String> {
    let names = paths::shared_memory().into_iter();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(part)).collect()
}

fn containers_are_possible() -> bool {
    let tried = Command::new("unshare")
        .args(["--uts", "--pid", "--fork", "--mount-proc", "true"])
        .output();
    let are_possible = tried.is_ok_and(|output| output.status.success());
    if !are_possible {
        skip(
            Requirement::Namespaces,
            "a container needs namespaces of names and processes (root)",
        );
    }
    are_possible
}

#[test]
fn a_container_may_end_with_its_launcher_and_be_killed_with_it() {
    if !containers_are_possible() {
        return;
    }
    let undisturbed = native(heat2d().job());
    let work = tempfile::tempdir().expect("a directory");
    paths::wait_for_turn();
    for kill_first in variants([false, true, false, false, true], 2) {
        if kill_first {
            let mut killed = contained(work.path(), "600000")
                .spawn()
                .expect("util-linux is there");
            let stdout = killed.stdout.take().expect("standard output is a pipe");
            let mut lines = BufReader::new(stdout).lines();
            assert!(lines.nth(10).is_some(), "the job prints too few lines");
            let unshare = processes::all().find(|&pid| processes::parent(pid) == Some(killed.id()));
            assert!(
                unshare.is_some_and(processes::kill),
                "the job ended before it was killed"
            );
            killed.wait().expect("timeout is a child");
        }
        let output = contained(work.path(), HEAT2D[2])
            .output()
            .expect("util-linux is there");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            output.stdout, undisturbed.stdout,
            "a killed container before: {kill_first}"
        );
        assert_eq!(
            left(&container()),
            [""; 0],
            "files are left in shared memory"
        );
    }
}
