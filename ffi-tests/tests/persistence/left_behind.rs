//! Files that jobs leave: `understudy inspect` shows them, `understudy clean` removes them.
//!
//! Files that are still needed are kept. A job ends with the command that runs it.

use ffi_tests::command::{CommandResult, UnderstudyCommand, understudy};
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Launcher, paths, processes};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use understudy_formats::private_directories;

fn heat() -> String {
    paths::example("heat2d").to_string_lossy().into_owned()
}

fn inspect(work: &Path, arguments: &[&str]) -> (CommandResult, String) {
    let ran = UnderstudyCommand::new(work, &[&["inspect"], arguments].concat()).run();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    (ran, text)
}

/// Returns the directory of a job of three workers that SIGTERM has ended.
///
/// The job has left checkpoints on disk and event files.
fn lost_job() -> tempfile::TempDir {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let start = [
        "run",
        "-n",
        "3",
        "--interval",
        "0.1s",
        "--copies",
        "1",
        "--disk",
        "disk",
        "--events",
        "events",
    ];
    let program = ["--", &heat(), "300", "300", "100000"];
    let (directory, mut is_ended) = (work.path().to_owned(), false);
    let ran = UnderstudyCommand::new(work.path(), &[&start[..], &program].concat())
        .during(move |child| {
            if !is_ended && epoch_files(&directory).len() >= 6 {
                is_ended = processes::terminate(child.id());
            }
        })
        .run();
    ran.assert(143, &["SIGTERM has ended the job"]);
    work
}

/// Returns the files of all checkpoints on disk, the oldest first.
fn epoch_files(work: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(work.join("disk"))
        .into_iter()
        .flatten()
        .flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "epoch"))
        .collect();
    files.sort();
    files
}

#[test]
#[ignore = "a variant: make test-all"]
fn files_of_a_lost_job_are_inspected() {
    let work = lost_job();
    let (ran, text) = inspect(work.path(), &["disk", "events"]);
    ran.assert(0, &[]);
    for words in [
        "3 of 3 files",
        ", complete",
        "worker 2",
        "replicas of rank 0 to rank 1",
        "commit",
        "4 event files",
    ] {
        assert!(text.contains(words), "no `{words}`: {text}");
    }
    let (ran, json) = inspect(work.path(), &["--json", "disk"]);
    ran.assert(0, &[]);
    assert!(
        json.contains("\"is_complete\": true") && json.contains("heat2d"),
        "{json}"
    );
    let (ran, _) = inspect(work.path(), &["."]);
    ran.assert(3, &["neither event files"]);
    let (ran, _) = inspect(work.path(), &["nowhere"]);
    ran.assert(3, &["nowhere cannot be read"]);

    // In one file, a bit differs, then the end is missing, then all but the magic number.
    let files = epoch_files(work.path());
    let whole = std::fs::read(&files[0]).expect("the file exists");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    for (content, words) in [
        (&damaged[..], "[checkpoint-damaged]"),
        (&whole[..whole.len() - 9], "[checkpoint-truncated]"),
        (b"USTDYEPO", "[checkpoint-truncated]"),
    ] {
        std::fs::write(&files[0], content).expect("writable");
        let (ran, text) = inspect(work.path(), &["disk"]);
        ran.assert(1, &[]);
        assert!(
            text.contains("PROBLEM: disk/") && text.contains(words),
            "{words}: {text}"
        );
        assert!(text.contains("NOT complete"), "{text}");
    }
    std::fs::remove_file(&files[0]).expect("the file exists");
    let (ran, text) = inspect(work.path(), &["disk"]);
    ran.assert(0, &[]);
    assert!(
        text.contains("2 of 3 files") && text.contains("NOT complete"),
        "{text}"
    );
}

/// Makes a leftover of a job whose launcher no longer exists.
fn make_leftover(name: &str, host: &str, age: Duration) -> PathBuf {
    // No process has this PID (proc(5), /proc/sys/kernel/pid_max).
    let path = private_directories::in_memory().join(format!("{name}prterun-{host}-4194305@1-0"));
    std::fs::write(&path, [0; 4096]).expect("the job that runs has made the directory");
    let file = std::fs::File::options().write(true).open(&path);
    file.and_then(|file| file.set_modified(SystemTime::now() - age))
        .expect("the file belongs to this user");
    path
}

#[test]
fn leftovers_are_removed_and_files_of_living_jobs_stay() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let ended = Rc::new(Cell::new(None));
    let found = Rc::clone(&ended);
    let here = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    // `understudy clean` runs while a job runs, which then loses a rank. If the command removed
    // ledgers of the job, the job would print output twice.
    let program = ["--", &heat(), "300", "300", "4000"];
    let may_end = work.path().join("may-end");
    let fault = format!(
        "kill rank=1 at=commit.end epoch=6; delay-end until={}",
        may_end.display()
    );
    let start = [
        "run",
        "-n",
        "3",
        "--interval",
        "40calls",
        // A daemon would clean the node as well.
        "--no-daemon",
        "--fault",
        &fault,
    ];
    let ran = UnderstudyCommand::new(work.path(), &[&start[..], &program].concat())
        .during(move |child| {
            let files = paths::shared_memory().into_iter();
            let ledgers = files
                .filter(|entry| entry.file_name().to_string_lossy().contains("@1-"))
                .count();
            if found.get().is_none() && ledgers >= 4 && child.id() > 0 {
                // The files are made just before the command runs, since daemons of other tests
                // remove such files.
                let paths = [
                    make_leftover("understudy-", &here, Duration::ZERO),
                    make_leftover(".understudy-", "ffi-test", Duration::from_secs(3600)),
                ];
                // A file that a job of another node has just written is kept, since this node
                // cannot find out if that job still runs.
                let living = make_leftover("understudy-", "ffi-test-living", Duration::ZERO);
                let dry = understudy(&["clean", "--dry-run"]);
                let is_listed = paths
                    .iter()
                    .all(|path| dry.contains(&*path.to_string_lossy()));
                let is_there = paths.iter().all(|path| path.exists());
                let text = understudy(&["clean"]);
                let is_gone = paths
                    .iter()
                    .all(|path| !path.exists() && text.contains(&*path.to_string_lossy()));
                let is_kept = std::fs::remove_file(living).is_ok();
                found.set(Some((is_listed, is_there, is_gone, is_kept)));
                std::fs::File::create(&may_end).expect("the directory is writable");
            }
        })
        .run();
    ran.assert(0, &["worker 1 failed"]);
    assert_eq!(
        ended.get(),
        Some((true, true, true, true)),
        "(listed by the dry run, kept by the dry run, removed, file of a living job kept)"
    );
    let native = native(Job::new(heat(), &["300", "300", "4000"]).workers(3));
    assert!(
        ran.stdout == native.stdout,
        "the output differs\n{}",
        ran.stderr
    );
}

/// Ranks run `understudy clean` before their program, under MPICH's launcher.
///
/// At that time the job has a directory in memory, but no ledger, so only the name of the job shows
/// that the job still runs.
#[test]
fn the_directory_of_a_starting_job_of_mpich_stays() {
    let Some(program) = paths::mpich_program("orders") else {
        return;
    };
    let place = tempfile::tempdir().expect("there is room for temporary files");
    let script = place.path().join("script");
    let clean = paths::product("understudy");
    let clean = format!("env -u LD_PRELOAD {} clean >&2", clean.display());
    paths::script(&script, &format!("#!/bin/sh\n{clean} && exec \"$@\"\n"));
    let job = || Job::new(&program, &["40"]).workers(2).of_mpich();
    let outcome = job()
        .launched_by(Launcher::Mpiexec)
        .started_by(&script)
        .run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    outcome.assert_nothing_left();
}

/// Time within which a job ends after its launcher was killed.
const END: Duration = Duration::from_secs(5);

/// `understudy run` is killed; its job ends and leaves no process and no file.
///
/// A job that outlives the command could not be stopped, and would disturb a restart.
#[test]
fn a_job_ends_with_the_command_that_runs_it() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let job = Rc::new(RefCell::new(Vec::new()));
    let (found, start) = (Rc::clone(&job), Instant::now());
    let program = ["--", &heat(), "300", "300", "100000"];
    let ran = UnderstudyCommand::new(work.path(), &[&["run", "-n", "3"], &program[..]].concat())
        .during(move |child| {
            let processes = processes::all().filter(|pid| processes::descends(*pid, child.id()));
            let processes: Vec<u32> = processes.collect();
            let is_time = start.elapsed() > Duration::from_millis(500) && processes.len() > 6;
            if found.borrow().is_empty() && is_time {
                found.replace(processes);
                assert!(processes::kill(child.id()));
            }
        })
        .run();
    assert_eq!(ran.code(), None, "{}", ran.stderr);
    let job = job.borrow();
    assert!(!job.is_empty(), "the command has ended before the kill");
    // The names of relays and files contain the launcher's PID.
    let name = |pid: &u32| format!("-{pid}@");
    let is_running = |pid: &u32| processes::parent(*pid).is_some();
    let left = || {
        let relays = job
            .iter()
            .flat_map(|pid| processes::with_command(&name(pid)));
        let processes = job.iter().copied().chain(relays).filter(is_running);
        let files = paths::shared_memory().into_iter();
        let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_of_job = |file: &String| job.iter().any(|pid| file.contains(&name(pid)));
        let processes = processes.map(|pid| format!("process {pid}"));
        processes.chain(files.filter(is_of_job)).collect::<Vec<_>>()
    };
    let killed = Instant::now();
    while killed.elapsed() < END && !left().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), Vec::<String>::new());
}

#[test]
fn only_old_incomplete_checkpoints_are_removed() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let file = |name: &str, age: u64| {
        let path = work.path().join(name);
        let file = std::fs::File::create(&path).expect("writable");
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .expect("ours");
        path
    };
    let whole = file(
        "understudy-0000000000000007-0001-0002-00000031-w00004.epoch",
        9999,
    );
    let fresh = file(
        "understudy-0000000000000007-0001-0002-00000032-w00004.epoch.part",
        10,
    );
    let torn = file(
        "understudy-0000000000000007-0001-0002-00000032-w00003.epoch.part",
        9999,
    );
    let other = file("results.part", 9999);
    // The command removes leftovers of the whole node as well.
    paths::wait_for_turn();
    let text = understudy(&["clean", &*work.path().to_string_lossy()]);
    assert!(text.contains("never completed"), "{text}");
    assert_eq!(
        [whole, fresh, torn, other].map(|path| path.exists()),
        [true, true, false, true]
    );
}
