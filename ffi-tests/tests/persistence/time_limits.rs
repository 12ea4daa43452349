//! Checkpoints on disk at a signal or before a time limit.

use crate::launchers::run::work;
use ffi_tests::command::{CommandResult, UnderstudyCommand};
use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::processes::{self, Process};
use ffi_tests::{Job, KillScope, paths};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const WORKERS: u32 = 3;
/// Status of a job that has stopped with a checkpoint on disk.
pub(super) const STOPPED: i32 = 85;
/// Directory of checkpoints, below the working directory.
const EPOCHS: &str = "epochs";
/// A problem that takes some seconds.
const HEAT: [&str; 4] = ["300", "300", "30000", "heat.field"];

/// The processes of a job that `understudy run` has started, by a mark in their environment.
pub(super) struct Processes {
    mark: String,
    strangers: BTreeSet<u32>,
}

impl Processes {
    pub(super) fn of(work: &Path) -> Processes {
        Processes {
            mark: work.to_string_lossy().into_owned(),
            strangers: processes::all().collect(),
        }
    }

    /// Living processes, with the launcher and without relays.
    fn all(&self) -> Vec<Process> {
        processes::marked(&self.mark, &self.strangers)
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        for process in self.all() {
            processes::send(process.pid, signal);
        }
    }

    /// The processes of the program, by rank.
    fn ranks(&self) -> Vec<u32> {
        let ranks = processes::ranks(&self.all(), true);
        ranks.values().map(|process| process.pid).collect()
    }
}

/// Prepares `understudy run OPTIONS -- heat2d …` with checkpoints on disk.
fn heat(work: &Path, program: &[&str], options: &[&str]) -> UnderstudyCommand {
    let heat2d = paths::example("heat2d").to_string_lossy().into_owned();
    let first = ["run", "-n", "3", "--spares", "1", "--launcher", "ckptd"];
    let disk = ["--disk", EPOCHS];
    let program = [&["--", heat2d.as_str()], program].concat();
    let words = [&first[..], &disk, options, &program].concat();
    UnderstudyCommand::new(work, &words).env(processes::MARK, &work.to_string_lossy())
}

/// Returns true once, when a checkpoint of this number is on disk.
pub(super) fn once_on_disk(work: &Path, epoch: u64) -> impl FnMut() -> bool + 'static {
    let (directory, mut is_over) = (work.join(EPOCHS), false);
    move || {
        let is_there = || {
            checkpoints_on_disk(&directory, WORKERS)
                .iter()
                .any(|it| *it >= epoch)
        };
        let is_now = !is_over && is_there();
        is_over |= is_now;
        is_now
    }
}

/// Returns the newest file of a checkpoint.
fn newest_file(work: &Path) -> (PathBuf, SystemTime) {
    let last = checkpoints_on_disk(&work.join(EPOCHS), WORKERS).pop();
    let last = last.expect("a checkpoint is on disk");
    let file = super::restarted_job::file(&work.join(EPOCHS), last, 0);
    let written = file.metadata().and_then(|about| about.modified());
    (file, written.expect("the file has a time"))
}

/// Fails unless the outputs of all legs are together that of an undisturbed run.
#[track_caller]
fn assert_joined(legs: &[CommandResult], program: &[&str], work: &Path) {
    let undisturbed = native(Job::new(paths::example("heat2d"), program).workers(WORKERS));
    let joined: Vec<u8> = legs.iter().flat_map(|leg| leg.stdout.clone()).collect();
    let last = legs.last().expect("there is a leg");
    assert!(
        joined == undisturbed.stdout,
        "the output of {} legs differs:\n{}",
        legs.len(),
        last.stderr
    );
    assert!(
        std::fs::read(work.join("heat.field")).ok() == undisturbed.file("heat.field"),
        "the file differs:\n{}",
        last.stderr
    );
    let left = std::fs::read_dir(work.join(EPOCHS)).map_or(0, Iterator::count);
    assert_eq!(left, 0, "checkpoints are left on disk");
}

/// Every process of the job gets SIGTERM twice, as from a batch system.
///
/// The interval is longer than the job, so the checkpoint is there only because of the signal.
#[test]
fn sigterm_to_every_process_leaves_a_checkpoint_and_status_85() {
    let work = work();
    let path = work.path();
    let on = [
        "--interval",
        "100s",
        "--checkpoint-on",
        "TERM@60s",
        "--restart=auto",
    ];
    let (jobs, mut is_due) = (Processes::of(path), once_on_disk(path, 1));
    let signalled = std::rc::Rc::new(std::cell::Cell::new(None));
    let time = std::rc::Rc::clone(&signalled);
    let first = heat(path, &HEAT, &on)
        .during(move |_| {
            if is_due() {
                time.set(Some(SystemTime::now()));
                jobs.signal_all(Signal::TERM);
                jobs.signal_all(Signal::TERM);
            }
        })
        .run();
    first.assert(
        STOPPED,
        &["[stopped-with-checkpoint]", "which SIGTERM has requested"],
    );
    assert_eq!(first.left, Vec::<String>::new(), "{}", first.line);
    let (file, written) = newest_file(path);
    let signalled = signalled.get().expect("the signal was sent");
    assert!(
        written >= signalled,
        "{} is older than the signal",
        file.display()
    );
    let second = heat(path, &HEAT, &on).run();
    second.assert(0, &["[restarted]"]);
    assert_joined(&[first, second], &HEAT, path);
}

/// Sends the signal to one rank only.
#[test]
fn sigusr1_writes_a_checkpoint_and_the_job_continues() {
    let work = work();
    let path = work.path();
    let on = ["--interval", "100s", "--checkpoint-on", "USR1"];
    let (jobs, mut is_due) = (Processes::of(path), once_on_disk(path, 1));
    let ran = heat(path, &HEAT, &on)
        .during(move |_| {
            if is_due() {
                processes::send(jobs.ranks()[1], Signal::USR1);
            }
        })
        .run();
    ran.assert(
        0,
        &["checkpoint 2, which SIGUSR1 has requested, is on disk"],
    );
    assert_joined(&[ran], &HEAT, path);
}

/// A stopped rank makes a checkpoint impossible.
#[test]
fn after_the_grace_the_older_checkpoint_counts() {
    let work = work();
    let path = work.path();
    let on = [
        "--interval",
        "50ms",
        "--checkpoint-on",
        "TERM@1s",
        "--restart=auto",
    ];
    let (jobs, mut is_due) = (Processes::of(path), once_on_disk(path, 3));
    let first = heat(path, &HEAT, &on)
        .during(move |launcher| {
            if is_due() {
                processes::send(jobs.ranks()[1], Signal::STOP);
                processes::send(launcher.id(), Signal::TERM);
            }
        })
        .run();
    first.assert(STOPPED, &["[stopped-with-older-checkpoint]"]);
    heat(path, &HEAT, &on).run().assert(0, &["[restarted]"]);
}

/// The second SIGTERM follows after the time in which signals are repetitions.
#[test]
#[ignore = "a variant: make test-all"]
fn a_second_sigterm_ends_the_job_at_once() {
    let work = work();
    let path = work.path();
    let on = ["--interval", "50ms", "--checkpoint-on", "TERM@100s"];
    let (jobs, mut is_due) = (Processes::of(path), once_on_disk(path, 3));
    let mut stopped: Option<Instant> = None;
    let began = Instant::now();
    let ran = heat(path, &HEAT, &on)
        .during(move |launcher| {
            if is_due() {
                processes::send(jobs.ranks()[1], Signal::STOP);
                processes::send(launcher.id(), Signal::TERM);
                stopped = Some(Instant::now());
            }
            if stopped.is_some_and(|at| at.elapsed() > Duration::from_millis(2200)) {
                stopped = None;
                processes::send(launcher.id(), Signal::TERM);
            }
        })
        .run();
    ran.assert(128 + 15, &["SIGTERM has ended the job"]);
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "the job has waited"
    );
}

/// Repeats a command under a time limit until the job is done.
///
/// Returns the number of legs.
fn run_in_legs(program: &[&str], limit: &str) -> usize {
    let work = work();
    let path = work.path();
    let on = [
        "--interval",
        "100s",
        "--time-limit",
        limit,
        "--restart=auto",
    ];
    let mut legs = Vec::new();
    while legs.len() < 400 {
        let leg = heat(path, program, &on).run();
        let is_over = leg.code() != Some(STOPPED);
        if !is_over {
            leg.assert(STOPPED, &["which the time limit has requested"]);
        }
        legs.push(leg);
        if is_over {
            break;
        }
    }
    let last = legs.last().expect("there is a leg");
    last.assert(0, &["[restarted]"]);
    assert_joined(&legs, program, path);
    legs.len()
}

#[test]
fn legs_under_a_time_limit_are_together_one_undisturbed_run() {
    run_in_legs(&HEAT, "3s");
}

mod soak {
    #[test]
    #[ignore = "takes two minutes; `make soak` runs it"]
    fn twenty_legs_under_a_time_limit_are_together_one_undisturbed_run() {
        let legs = super::run_in_legs(&["300", "300", "700000", "heat.field"], "3s");
        assert!(legs >= 20, "there were {legs} legs only");
    }
}

/// Ends all guardians by SIGTERM, on two hosts.
#[test]
#[ignore = "a variant: make test-all"]
fn sigterm_on_several_hosts_leaves_a_checkpoint_and_status_85() {
    let job = || {
        let job = Job::new(paths::example("heat2d"), &HEAT)
            .disk()
            .interval("100s");
        job.hosts(&[3, 2])
            .env("UNDERSTUDY_CHECKPOINT_ON", "TERM@60s")
    };
    let at = super::restarted_job::on_disk(1);
    let mut first = job().killed_as_a_whole(at, KillScope::Job).run();
    first.assert_status(STOPPED);
    first.assert_line(&["[stopped-with-checkpoint]", "checkpoint 2"]);
    let mut second = job()
        .env("UNDERSTUDY_RESTART", "auto")
        .run_after(&mut first);
    second.assert_success();
    second.stdout = [&first.stdout[..], &second.stdout].concat();
    let undisturbed = native(Job::new(paths::example("heat2d"), &HEAT));
    second.assert_like(&undisturbed, &["heat.field"]);
}

/// Without a complete checkpoint the job starts from the beginning, with one it continues.
#[test]
fn a_restart_that_may_begin_begins_or_continues() {
    let work = work();
    let path = work.path();
    let on = ["--interval", "100s", "--time-limit", "3s", "--restart=auto"];
    heat(path, &HEAT, &on)
        .run()
        .assert(STOPPED, &["[stopped-with-checkpoint]"]);
    let required = ["--restart"];
    for epoch in checkpoints_on_disk(&path.join(EPOCHS), WORKERS) {
        let file = super::restarted_job::file(&path.join(EPOCHS), epoch, 1);
        std::fs::remove_file(file).expect("the file is there");
    }
    heat(path, &HEAT, &required)
        .run()
        .assert(ffi_tests::REFUSED, &["[no-checkpoint-to-restart]"]);
    let ran = heat(path, &HEAT, &["--restart=auto"]).run();
    ran.assert(0, &["[incomplete-checkpoints]"]);
    assert_joined(&[ran], &HEAT, path);
}
