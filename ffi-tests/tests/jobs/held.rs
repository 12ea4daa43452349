//! Epochs that are held in memory that outlives the job, and copied to disk from there (UNDERSTUDY_DISK_HOLD).

use ffi_tests::command::understudy;
use ffi_tests::daemon::Daemon;
use ffi_tests::programs::{Case, heat2d};
use ffi_tests::shared::native;
use ffi_tests::{Job, Outcome, Scope, Trigger, Verdicts, few};
use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use understudy_formats::epochs::flush;

const WORKERS: u32 = 4;

fn job(case: &Case) -> Job {
    case.job()
        .disk()
        .env("UNDERSTUDY_DISK_HOLD", "1")
        .interval("60calls")
}

fn restarted(case: &Case) -> Job {
    job(case).env("UNDERSTUDY_RESTART", "1")
}

/// Killed with its launcher when four epochs are on disk.
fn killed(job: Job) -> Outcome {
    let at = Trigger::OnDisk {
        workers: WORKERS,
        epoch: 4,
    };
    let outcome = job.killed_as_a_whole(at, Scope::Everything).run();
    let hit = outcome.killed.iter().filter(|killed| killed.hit).count();
    outcome.check(
        hit > WORKERS as usize,
        "the job came to its end before it was killed",
    );
    outcome
}

fn epochs(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "epoch"))
        .collect()
}

fn held(outcome: &Outcome) -> PathBuf {
    flush::held(&outcome.disk().canonicalize().expect("it is there"))
}

/// The restarted job writes what the undisturbed one does, and leaves nothing.
#[track_caller]
fn assert_goes_on(case: &Case, last: &Outcome) {
    last.assert_success();
    let said = last
        .own_lines()
        .iter()
        .any(|line| line.contains("the job goes on from epoch"));
    last.check(said, "it has not gone on from an epoch");
    let undisturbed = native(case.job());
    last.check(
        undisturbed.stdout.ends_with(&last.stdout),
        "the output is not the end of the undisturbed one's",
    );
    for file in case.files {
        last.check(
            last.file(file) == undisturbed.file(file),
            &format!("{file} differs"),
        );
    }
    last.assert_nothing_left();
    last.check(epochs(&last.disk()).is_empty(), "epochs are left on disk");
    last.check(!held(last).exists(), "epochs are left in memory");
}

fn remove(paths: &[PathBuf]) {
    for path in paths {
        fs::remove_file(path).expect("it is ours");
    }
}

fn damage(paths: &[PathBuf]) {
    for path in paths {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .expect("it is ours");
        let (mut byte, middle) = ([0], file.metadata().expect("open").len() / 2);
        file.read_exact_at(&mut byte, middle).expect("read");
        file.write_all_at(&[byte[0] ^ 1], middle).expect("written");
    }
}

/// What happens to the files between the two runs.
type Loss = fn(&Path, &Path);

#[test]
fn a_job_goes_on_from_what_is_held_or_from_the_disk() {
    let losses: [(&str, Loss); 4] = [
        ("the disk is lost", |_, disk| remove(&epochs(disk))),
        ("what is held is damaged", |held, _| damage(&epochs(held))),
        ("nothing is lost", |_, _| {}),
        ("the memory is lost", |held, _| remove(&epochs(held))),
    ];
    let case = heat2d();
    let mut verdicts = Verdicts::default();
    for (name, loss) in few(losses, 1) {
        let daemon = Daemon::start();
        let with_daemon =
            |job: Job| job.env("UNDERSTUDY_CKPTD", &daemon.socket().to_string_lossy());
        let mut first = killed(with_daemon(job(&case)));
        let (held, disk) = (held(&first), first.disk());
        let counts = [&held, &disk].map(|place| epochs(place).len());
        println!("{name}: {counts:?} files in memory and on disk");
        loss(&held, &disk);
        let second = with_daemon(restarted(&case)).run_after(&mut first);
        verdicts.judge(name, || {
            first.check(
                counts.iter().all(|&count| count >= WORKERS as usize),
                "too few files",
            );
            first.check(
                daemon.copies() >= u64::from(WORKERS),
                "the daemon has not copied",
            );
            assert_goes_on(&case, &second);
        });
    }
    verdicts.assert_all_good();
}

/// The daemon dies while it copies, or is not there at all.
#[test]
fn without_a_daemon_workers_copy_what_is_held() {
    let case = heat2d();
    let mut daemon = Daemon::start();
    let socket = daemon.socket().to_string_lossy().into_owned();
    let is_killed = Rc::new(RefCell::new(false));
    let seen = Rc::clone(&is_killed);
    let watched = job(&case).env("UNDERSTUDY_CKPTD", &socket).watch(move |_| {
        let has_copied = daemon.copies() > 2;
        if has_copied {
            daemon.kill();
            *seen.borrow_mut() = true;
        }
        has_copied
    });
    let mut first = killed(watched);
    first.check(*is_killed.borrow(), "the daemon has not copied");
    let second = restarted(&case).run_after(&mut first);
    assert_goes_on(&case, &second);
}

/// Whoever does not start the job again gets the memory back.
#[test]
#[ignore = "a variant: make test-all"]
fn what_is_held_may_be_let_go() {
    let case = heat2d();
    let first = killed(job(&case));
    let (held, disk) = (held(&first), first.disk());
    let (before, on_disk) = (epochs(&held).len(), epochs(&disk).len());
    understudy(&["clean", &disk.to_string_lossy()]);
    // What was not yet copied stays.
    first.check(
        epochs(&held).len() <= before - WORKERS as usize,
        "copies are left in memory",
    );
    assert_eq!(epochs(&disk).len(), on_disk);
    fs::remove_dir_all(&disk).expect("it is ours");
    understudy(&["clean"]);
    assert!(
        !held.exists(),
        "epochs of a directory that is gone are left in memory"
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_disk_level_is_needed() {
    let case = heat2d();
    let outcome = case
        .job()
        .env("UNDERSTUDY_DISK_HOLD", "1")
        .env("UNDERSTUDY_REQUIRE", "1")
        .run();
    let said = outcome
        .own_lines()
        .iter()
        .any(|line| line.contains("UNDERSTUDY_DISK_HOLD: set UNDERSTUDY_DISK"));
    outcome.check(said, "the reason is not told");
}
