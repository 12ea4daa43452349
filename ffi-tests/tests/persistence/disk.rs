//! The disk level: restarts of whole jobs, damaged files, lost replicas, and full disks.

use crate::persistence::restarted_job::{
    WORKERS, assert_as_undisturbed, assert_killed, assert_like, file, job, joined, killed, newest,
    on_disk, restart, restarted,
};
use ffi_tests::kill::checkpoints_on_disk;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{HEAT2D, TestProgram, cg, heat2d};
use ffi_tests::{
    Job, Kill, KillScope, Outcome, REFUSED, Requirement, Trigger, Verdicts, fault_at_commit,
    is_thorough, paths, skip, variants,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn assert_refused(outcome: &Outcome, words: &[&str]) {
    outcome.assert_status(REFUSED);
    for word in words {
        let is_reported = outcome.own_lines().iter().any(|line| line.contains(word));
        outcome.check(is_reported, &format!("no line of understudy has `{word}`"));
    }
    outcome.check(outcome.stdout.is_empty(), "the program has run");
    outcome.assert_nothing_left();
}

#[test]
fn a_job_that_was_killed_as_a_whole_resumes() {
    let mut verdicts = Verdicts::default();
    for (case, epoch) in variants([(heat2d(), 3), (cg(), 3), (heat2d(), 1), (cg(), 1)], 1) {
        let mut first = killed(job(&case), epoch);
        let second = restarted(&case).run_after(&mut first);
        println!("{}: {:?}", case.name, second.own_lines());
        verdicts.judge(case.name, || {
            assert_as_undisturbed(&case, &first.stdout, second)
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn a_job_that_was_killed_with_its_launcher_resumes() {
    // Output that the launcher had not passed on is lost with the launcher, so the output of the
    // first run is not compared.
    let case = heat2d();
    let mut first = job(&case)
        .killed_as_a_whole(on_disk(3), KillScope::Everything)
        .run();
    assert_killed(&first);
    let second = restarted(&case).run_after(&mut first);
    assert_as_undisturbed(&case, &native(case.job()).stdout, second);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_job_can_be_restarted_repeatedly() {
    let case = heat2d();
    let mut first = killed(job(&case), 3);
    let again = restarted(&case).killed_as_a_whole(on_disk(8), KillScope::Job);
    let mut second = again.run_after(&mut first);
    assert_killed(&second);
    let third = restarted(&case).run_after(&mut second);
    let epochs =
        [restart(&second), restart(&third)].map(|found| found.map_or(0, |(epoch, ..)| epoch));
    third.check(
        epochs[0] < epochs[1],
        &format!("the restarts were at epochs {epochs:?}"),
    );
    assert_as_undisturbed(&case, &joined(&first.stdout, &second), third);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_restarted_job_survives_the_death_of_a_rank() {
    let case = heat2d();
    let mut first = killed(job(&case), 3);
    let second = restarted(&case)
        .kill(Kill::at(1, Trigger::Lines(5)))
        .run_after(&mut first);
    second.assert_taken_over(&[1]);
    assert_as_undisturbed(&case, &first.stdout, second);
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("the file is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)
        .expect("the file is that long");
    file.write_all_at(&[byte[0] ^ 16], at)
        .expect("the file can be written");
}

fn cut(path: &Path, by: u64) {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the file is there");
    let length = file.metadata().expect("the file is there").len();
    file.set_len(length.saturating_sub(by))
        .expect("the file can be cut");
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).expect("the file is there").len()
}

type Damage = fn(&Path);

/// Damages to a file of a checkpoint: name, function, and words of the message.
const DAMAGES: &[(&str, Damage, &str)] = &[
    (
        "a bit of the pages",
        |path| flip(path, length(path) / 2),
        "of the pages is damaged",
    ),
    (
        "missing",
        |path| fs::remove_file(path).expect("the file is there"),
        "[checkpoint-missing]",
    ),
    (
        "torn",
        |path| cut(path, length(path) / 3),
        "[checkpoint-truncated]",
    ),
    (
        "without its end",
        |path| cut(path, 1),
        "[checkpoint-truncated]",
    ),
    (
        "empty",
        |path| cut(path, u64::MAX),
        "[checkpoint-truncated]",
    ),
    (
        "a bit of the magic",
        |path| flip(path, 3),
        "[not-a-checkpoint]",
    ),
    ("another version", |path| flip(path, 8), "format version 18"),
    (
        "a bit of the head",
        |path| flip(path, 40),
        "the file's head is damaged",
    ),
];

#[test]
fn a_damaged_file_is_refused_and_the_older_epoch_is_used() {
    let case = heat2d();
    let mut verdicts = Verdicts::default();
    for (index, (what, damage, message)) in variants(DAMAGES, 1).enumerate() {
        let mut first = killed(job(&case), 4);
        let path = newest(&first, WORKERS, index as u32 % WORKERS);
        damage(&path);
        let second = restarted(&case).run_after(&mut first);
        println!("{what}: {:?}", second.own_lines());
        verdicts.judge(what, || {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            second.assert_line(&[&name, message, "is tried"]);
            assert_as_undisturbed(&case, &first.stdout, second);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn without_a_usable_epoch_nothing_starts() {
    let case = heat2d();
    let mut first = killed(job(&case), 4);
    for epoch in checkpoints_on_disk(&first.disk(), WORKERS) {
        cut(&file(&first.disk(), epoch, 2), 5);
    }
    let damaged = restarted(&case).run_after(&mut first);
    assert_refused(
        &damaged,
        &["[checkpoint-truncated]", "[no-checkpoint-to-restart]"],
    );

    let none = restarted(&case).run();
    assert_refused(
        &none,
        &["no checkpoint from which all 4 workers can continue"],
    );
}

#[test]
fn epochs_of_another_job_are_refused() {
    let case = heat2d();
    let mut first = killed(job(&case), 4);
    let mut anew = job(&case).run_after(&mut first);
    assert_refused(&anew, &["[earlier-checkpoints]", "UNDERSTUDY_RESTART=1"]);
    let mut fewer = restarted(&case).workers(3).run_after(&mut anew);
    assert_refused(
        &fewer,
        &["another number of workers (4, but this job has 3)"],
    );
    let program = paths::example("heat2d");
    let other = Job::new(program, &["300", "300", "9000", "heat.field"]).disk();
    let mut other = other.env("UNDERSTUDY_RESTART", "1").run_after(&mut fewer);
    assert_refused(&other, &["other arguments", &HEAT2D[..3].join(" ")]);
    let again = restarted(&case).run_after(&mut other);
    assert_as_undisturbed(&case, &first.stdout, again);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_restart_without_protection_does_not_start_anew() {
    let unprotected = heat2d().job().env("UNDERSTUDY_RESTART", "1").run();
    unprotected.assert_line(&["UNDERSTUDY_DISK"]);
    unprotected.check(unprotected.stdout.is_empty(), "the program has run");
}

/// Worker 1 is killed before it writes the first checkpoint, which remains the only one.
///
/// The replacement writes the checkpoint to disk, and a restart continues from there.
#[test]
#[ignore = "a variant: make test-all"]
fn a_replacement_writes_the_checkpoint_of_the_failed_worker_to_disk() {
    let case = heat2d();
    let only_first = |job: Job| job.interval("off");
    let job = only_first(job(&case)).fault(&fault_at_commit(1, 1));
    let mut first = job.killed_as_a_whole(on_disk(1), KillScope::Job).run();
    let hit = first.killed.iter().filter(|killed| killed.hit).count();
    first.check(
        hit == WORKERS as usize,
        "the checkpoint was never complete on disk",
    );
    let second = only_first(restarted(&case)).run_after(&mut first);
    assert_as_undisturbed(&case, &first.stdout, second);
}

/// A worker is killed when all have met in MPI_Finalize; no checkpoint stays on disk.
///
/// No rollback is possible then, and checkpoints that are left would stop the next job in this
/// directory.
#[test]
fn a_worker_that_dies_when_all_have_met_leaves_no_epochs() {
    let case = heat2d();
    for rank in variants([1, 3], 1) {
        let outcome = job(&case)
            .fault(&format!("kill rank={rank} at=finalize.agreed"))
            .run();
        outcome.assert_died_at_the_end();
        outcome.assert_like(&native(case.job()), case.files);
        let left: Vec<_> = fs::read_dir(outcome.disk())
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        outcome.check(left.is_empty(), &format!("left on disk: {left:?}"));
    }
}

#[test]
fn a_worker_that_fails_with_its_only_replica_is_restored_from_disk() {
    let case = heat2d();
    let at = on_disk(4);
    // Offset 1: worker 2 stores the replica of worker 1.
    let job = job(&case).spares(2).env("UNDERSTUDY_BUDDY_OFFSET", "1");
    let job = job.fault("pretend no-memfd");
    let outcome = job.kill(Kill::at(1, at)).kill(Kill::at(2, at)).run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_replaced(&[1, 2]);
    let words = [
        "worker 1 (rank 1 on ",
        "failed together with worker 2",
        "[back-to-disk]",
    ];
    outcome.assert_line(&words);
    outcome.assert_nothing_left();
}

/// Makes a job that opens, changes, renames and removes files between checkpoints.
fn files_job() -> Job {
    Job::new(paths::test_program("files"), &["200", "2000"]).interval("0.1s")
}

#[track_caller]
fn assert_same_files(outcome: &Outcome) {
    let undisturbed = native(files_job());
    let names = undisturbed.files();
    outcome.check(
        outcome.files() == names,
        &format!("there are the files {:?}, not {names:?}", outcome.files()),
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    outcome.assert_like(&undisturbed, &names);
    let left = fs::read_dir(outcome.disk()).map_or(0, Iterator::count);
    outcome.check(left == 0, "files are left in the directory of checkpoints");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_restart_finds_files_as_they_were() {
    let mut first = killed(files_job().disk(), 3);
    let again = files_job().disk().env("UNDERSTUDY_RESTART", "1");
    let mut second = again
        .killed_as_a_whole(on_disk(8), KillScope::Job)
        .run_after(&mut first);
    assert_killed(&second);
    // The last checkpoint is damaged. The third run continues from the one before, and undoes all
    // changes of files since then.
    let last = checkpoints_on_disk(&second.disk(), WORKERS)
        .pop()
        .expect("there are checkpoints on disk");
    cut(&file(&second.disk(), last, 1), 9);
    let mut third = files_job()
        .disk()
        .env("UNDERSTUDY_RESTART", "1")
        .run_after(&mut second);
    third.assert_success();
    third.stdout = joined(&joined(&first.stdout, &second), &third);
    assert_same_files(&third);
}

/// Children of the ranks change files; a restart and a recovery undo the changes.
#[test]
#[ignore = "a variant: make test-all"]
fn a_restart_finds_files_of_child_processes_as_they_were() {
    let job =
        || Job::new(paths::test_program("table/child_files"), &["14", "20"]).interval("0.05s");
    let mut first = killed(job().disk(), 3);
    let again = job().disk().env("UNDERSTUDY_RESTART", "1").spares(1);
    let second = again.fault("kill rank=1 at=call:20").run_after(&mut first);
    second.assert_taken_over(&[1]);
    let is_about_children = |line: &&str| line.contains("child process");
    let warnings = second.own_lines().into_iter().filter(is_about_children);
    second.check(
        warnings.count() == 0,
        "there is a warning about child processes",
    );
    assert_like(&native(job()), &[], &first.stdout, second);
}

/// The last checkpoint on disk is older than the last one in memory.
#[test]
#[ignore = "a variant: make test-all"]
fn files_are_those_of_the_checkpoint_on_disk() {
    let at = on_disk(4);
    let job = files_job()
        .disk()
        .spares(2)
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .env("UNDERSTUDY_DISK_EVERY", "3")
        .fault("pretend no-memfd");
    let outcome = job.kill(Kill::at(1, at)).kill(Kill::at(2, at)).run();
    outcome.assert_success();
    outcome.assert_line(&["[back-to-disk]"]);
    assert_same_files(&outcome);
    outcome.check(
        outcome.takeovers().len() == 2,
        "not exactly two workers were replaced",
    );
    outcome.assert_nothing_left();
}

/// A small file system in memory.
struct Mount(PathBuf);

impl Mount {
    /// Mounts the file system; without permission, prints the reason and returns `None`.
    fn new(options: &str) -> Option<Mount> {
        let path = tempfile::tempdir()
            .expect("there is room for temporary files")
            .keep();
        let mount = Mount(path);
        if mount.mount(options) {
            return Some(mount);
        }
        skip(Requirement::Namespaces, "this user may not mount a tmpfs");
        None
    }

    fn mount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&self.0);
        command.status().is_ok_and(|status| status.success())
    }

    fn job(&self, case: &TestProgram) -> Job {
        case.job().env("UNDERSTUDY_DISK", &self.0.to_string_lossy())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}

pub fn count_lines_with(outcome: &Outcome, words: &str) -> usize {
    outcome
        .own_lines()
        .iter()
        .filter(|line| line.contains(words))
        .count()
}

#[test]
fn a_disk_that_is_full_or_cannot_be_written_is_reported_once_and_the_job_continues() {
    let case = heat2d();
    let check = |job: Job, why: &str| {
        let outcome = job.kill(Kill::at(1, Trigger::Lines(20))).run();
        println!("{why}: {:?}", outcome.own_lines());
        outcome.assert_recovered(&native(case.job()), case.files, &[1]);
        outcome.check(
            count_lines_with(&outcome, "[checkpoints-not-written]") == 1,
            "the failure to write was not reported exactly once",
        );
        outcome.check(
            count_lines_with(&outcome, why) == 1,
            &format!("not exactly one line has `{why}`"),
        );
    };
    check(
        case.job().env("UNDERSTUDY_DISK", "/dev/null/epochs"),
        "make this directory",
    );
    let Some(full) = Mount::new("size=40k") else {
        return;
    };
    check(full.job(&case), "make room there");
    let Some(protected) = is_thorough().then(|| Mount::new("ro")).flatten() else {
        return;
    };
    check(protected.job(&case), "mount it writable");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_disk_with_new_space_is_used() {
    const FULL: &str = "[checkpoints-not-written]";
    const ROOM: &str = "[checkpoints-written-again]";
    const END: &str = "end";
    let Some(full) = Mount::new("size=40k") else {
        return;
    };
    let path = full.0.clone();
    let mut has_room = false;
    let job = Job::new(paths::test_program("until"), &[END])
        .interval("0.1s")
        .env("UNDERSTUDY_DISK", &full.0.to_string_lossy())
        .watch(move |ranks| {
            let work = PathBuf::from(format!("/proc/{}/cwd", ranks[&0].pid));
            let Ok(stderr) = fs::read_to_string(work.join("../stderr")) else {
                return false;
            };
            if !has_room && stderr.contains(FULL) {
                let mut command = Command::new("mount");
                command.args(["-o", "remount,size=64m"]).arg(&path);
                has_room = command.status().is_ok_and(|status| status.success());
            }
            has_room && stderr.contains(ROOM) && fs::write(work.join(END), "").is_ok()
        });
    let outcome = job.run();
    outcome.assert_success();
    outcome.check(
        outcome.stdout == b"4 ranks: computed\n",
        "the program's output differs",
    );
    outcome.check(
        count_lines_with(&outcome, FULL) == 1,
        "the lack of space was not reported exactly once",
    );
    outcome.check(
        count_lines_with(&outcome, ROOM) == 1,
        "the new space was not reported exactly once",
    );
}

/// The thread that writes checkpoints never uses a descriptor number of the program.
///
/// Otherwise the next file that the program opens could get another number.
#[test]
fn the_numbers_of_the_programs_files_are_its_own() {
    let make = || Job::new(paths::test_program("lowest"), &["300"]);
    let outcome = make().disk().interval("10calls").run();
    outcome.assert_success();
    outcome.assert_like(&native(make()), &[]);
}
