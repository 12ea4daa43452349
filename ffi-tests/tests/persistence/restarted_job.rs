//! Jobs that are killed as a whole and restarted from disk.

use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::programs::TestProgram;
use ffi_tests::{Job, KillScope, Outcome, Trigger};
use std::fs;
use std::path::{Path, PathBuf};

pub const WORKERS: u32 = 4;

/// Makes a job that has checkpoints on disk long before its end, on any machine.
pub fn job(case: &TestProgram) -> Job {
    let interval = if case.name == "cg" {
        "8calls"
    } else {
        "30calls"
    };
    case.job().disk().interval(interval)
}

pub fn restarted(case: &TestProgram) -> Job {
    job(case).env("UNDERSTUDY_RESTART", "1")
}

pub const fn on_disk(epoch: u64) -> Trigger {
    let workers = WORKERS;
    Trigger::OnDisk { workers, epoch }
}

/// Runs a job, which is ended by SIGTERM when this checkpoint is on disk.
///
/// The job loses none of its output.
pub fn killed(job: Job, epoch: u64) -> Outcome {
    let outcome = job.killed_as_a_whole(on_disk(epoch), KillScope::Job).run();
    assert_killed(&outcome);
    outcome
}

#[track_caller]
pub fn assert_killed(outcome: &Outcome) {
    let hit = outcome.killed.iter().filter(|killed| killed.hit).count();
    outcome.check(
        hit == WORKERS as usize + 1,
        "the job has ended before it was killed",
    );
}

/// Checkpoint from which a job was restarted, and the earlier output to keep.
///
/// The output to keep is a number of lines and a number of bytes of the next line.
pub fn restart(outcome: &Outcome) -> Option<(u64, usize, usize)> {
    let number = |text: &str| text.split(' ').next()?.parse().ok();
    let line = outcome
        .own_lines()
        .into_iter()
        .find(|line| line.contains("[restarted]"))?;
    let (_, epoch) = line.split_once("from checkpoint ")?;
    let (_, place) = line.split_once("after the first ")?;
    let bytes = place
        .split_once(" line(s) and ")
        .map_or(Some(0), |(_, bytes)| number(bytes));
    Some((number(epoch)?, number(place)? as usize, bytes? as usize))
}

/// Joins the output before a restart with that of the restarted job.
///
/// Earlier output is dropped after the place where the restarted job continues.
#[track_caller]
pub fn joined(before: &[u8], next: &Outcome) -> Vec<u8> {
    let place = restart(next);
    next.check(place.is_some(), "no line reports a restart");
    let (_, lines, bytes) = place.unwrap_or_default();
    let whole: usize = before
        .split_inclusive(|&byte| byte == b'\n')
        .take(lines)
        .map(<[u8]>::len)
        .sum();
    next.check(
        before.len() >= whole + bytes,
        "the job has printed less than the line about the restart says",
    );
    [&before[..whole + bytes], &next.stdout].concat()
}

/// Fails unless the restarted job has completed with the output of an undisturbed run.
#[track_caller]
pub fn assert_as_undisturbed(case: &TestProgram, before: &[u8], last: Outcome) {
    assert_like(&native(case.job()), case.files, before, last);
}

/// Compares a restarted job with a given undisturbed run; see [`assert_as_undisturbed`].
#[track_caller]
pub fn assert_like(undisturbed: &Outcome, files: &[&str], before: &[u8], mut last: Outcome) {
    last.assert_success();
    last.stdout = joined(before, &last);
    last.assert_like(undisturbed, files);
    last.assert_nothing_left();
    let left = fs::read_dir(last.disk()).map_or(0, Iterator::count);
    last.check(left == 0, "checkpoints are left on disk");
}

/// Path of a worker's file of the last complete checkpoint.
pub fn newest(outcome: &Outcome, workers: u32, worker: u32) -> PathBuf {
    let last = checkpoints_on_disk(&outcome.disk(), workers)
        .pop()
        .expect("there are checkpoints on disk");
    file(&outcome.disk(), last, worker)
}

pub fn file(directory: &Path, epoch: u64, worker: u32) -> PathBuf {
    let end = format!("-{epoch:08}-w{worker:05}.epoch");
    let entries = fs::read_dir(directory)
        .expect("the directory is there")
        .flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths
        .find(|path| path.to_string_lossy().ends_with(&end))
        .expect("the file is there")
}
