use super::*;
use crate::epochs::epoch_files::EpochKey;
use crate::epochs::heartbeat::Heartbeat;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_numbers::{Epoch, Worker};

/// Patience of claims that watch an owner, and the interval of its beats.
const PATIENCE: Duration = Duration::from_millis(700);
const BEAT: Duration = Duration::from_millis(50);

fn job(nonce: u64) -> DirectoryOwner {
    DirectoryOwner::current(&format!("job-{nonce}"), nonce, |_| None)
}

/// Returns a job whose processes are under another kernel, as far as its file shows.
fn elsewhere(nonce: u64) -> DirectoryOwner {
    DirectoryOwner {
        boot: format!("boot-{nonce}"),
        ..job(nonce)
    }
}

fn claim_of(directory: &Path, own: DirectoryOwner, patience: Duration) -> Claim<'_> {
    Claim {
        directory,
        own,
        job_term: None,
        patience,
        announce: |_, _| {},
        lift: File::from,
    }
}

fn claimed(directory: &Path, own: DirectoryOwner) -> Result<Ownership, ClaimError> {
    claim_of(directory, own, PATIENCE).claim()
}

#[track_caller]
fn refused(outcome: Result<Ownership, ClaimError>) -> String {
    let error = outcome.expect_err("the claim is refused");
    assert!(matches!(error, ClaimError::Owned { .. }), "{error}");
    error.to_string()
}

/// Process that claims each directory whose path it reads, and keeps all that it owns.
struct Starter {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Starter {
    fn start(own: &DirectoryOwner) -> Starter {
        let mut process = Command::new(std::env::current_exe().expect("the test has a file"))
            .args(["--exact", "epochs::claim::tests::starting_process"])
            .args(["--ignored", "--nocapture"])
            .env("UNDERSTUDY_TEST_NONCE", own.nonce.to_string())
            .env("UNDERSTUDY_TEST_BOOT", &own.boot)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be executed");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        Starter {
            process,
            input,
            output,
        }
    }

    fn send(&mut self, directory: &Path) {
        let mut input = self.input.as_ref().expect("it is open");
        writeln!(input, "{}", directory.display()).expect("the process runs");
    }

    /// Returns the outcome of the last claim: `owns`, or the reason of a refusal.
    fn outcome(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("readable") > 0);
            if let Some(outcome) = line.trim().strip_prefix("outcome: ") {
                return outcome.to_owned();
            }
        }
    }

    fn end(mut self) {
        drop(self.input.take());
        self.process.wait().expect("it ends");
    }
}

#[test]
#[ignore = "a process of other tests"]
fn starting_process() {
    let variable = |name| std::env::var(name).expect("a test has started this process");
    let own = DirectoryOwner {
        boot: variable("UNDERSTUDY_TEST_BOOT"),
        ..job(variable("UNDERSTUDY_TEST_NONCE").parse().expect("a number"))
    };
    let mut owned = Vec::new();
    for directory in io::stdin().lines() {
        let directory = directory.expect("readable");
        match claim_of(Path::new(&directory), own.clone(), Duration::ZERO).claim() {
            Ok(ownership) => {
                println!("\noutcome: owns");
                owned.push(ownership);
            }
            Err(error) => println!("\noutcome: {error}"),
        }
    }
}

#[test]
fn a_running_owner_is_named_and_an_ended_one_replaced() {
    let place = tempfile::tempdir().expect("a directory");
    let mut first = Starter::start(&job(1));
    first.send(place.path());
    assert_eq!(first.outcome(), "owns");
    // Another process of the first job.
    let other = claimed(place.path(), job(1)).expect("it is the same job");
    assert_eq!(other.owner().term, 1);
    drop(other);
    let words = refused(claimed(place.path(), job(2)));
    assert!(
        words.contains("job job-1 (process") && words.contains("have locked"),
        "{words}"
    );
    first.end();
    let second = claimed(place.path(), job(2)).expect("the first job has ended");
    assert_eq!(second.owner().term, 2);
    assert_eq!(owner_of(place.path()).map(|owner| owner.nonce), Some(2));
    second.remove();
    assert!(!has_owner_file(place.path()));
    assert_eq!(names(place.path()).expect("readable"), [""; 0]);
}

/// Two jobs start 1000 times at one time: under one kernel, and on two hosts.
///
/// On two hosts the loser sees no lock of the winner, only its file.
#[test]
fn of_two_starters_one_owns_the_directory() {
    // In memory, where fsync(2) takes no time.
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for (host, jobs) in [
        ("one", [job(1), job(2)]),
        ("two", [elsewhere(1), elsewhere(2)]),
    ] {
        let mut starters = jobs.map(|own| Starter::start(&own));
        let mut wins = [0, 0];
        for round in 0..500 {
            let directory = place.path().join(format!("{host}-{round}"));
            fs::create_dir(&directory).expect("there is room");
            starters.iter_mut().for_each(|it| it.send(&directory));
            let outcomes = starters.each_mut().map(Starter::outcome);
            let winners = [0, 1].map(|index: usize| outcomes[index] == "owns");
            assert_eq!(
                winners.iter().filter(|&&has_won| has_won).count(),
                1,
                "{host} {round}: {outcomes:?}"
            );
            let loser = winners.iter().position(|&has_won| !has_won).unwrap_or(0);
            assert!(
                outcomes[loser].contains(&format!("job-{}", 2 - loser)),
                "{outcomes:?}"
            );
            let left = names(&directory).expect("readable");
            assert_eq!(left, [name_of(1)], "a unique file is left");
            wins[1 - loser] += 1;
        }
        println!("{host} host(s): {wins:?}");
        assert!(wins.iter().all(|&count| count > 0), "{wins:?}");
        starters.into_iter().for_each(Starter::end);
    }
}

#[test]
fn an_owner_on_another_host_is_replaced_only_if_its_counter_is_unchanged() {
    let place = tempfile::tempdir().expect("a directory");
    let first = claimed(place.path(), elsewhere(1)).expect("it is new");
    let path = first.file().path().to_owned();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beats = scope.spawn(|| {
            let mut heartbeat = Heartbeat::new(&path);
            while !ends.load(Ordering::Relaxed) {
                heartbeat.beat().expect("the file is in its place");
                std::thread::sleep(BEAT);
            }
        });
        let words = refused(claimed(place.path(), elsewhere(2)));
        assert!(words.contains("has rewritten the owner file"), "{words}");
        ends.store(true, Ordering::Relaxed);
        beats.join().expect("no panic");
    });
    assert!(first.file().is_in_place().expect("readable"));

    let impatient = claim_of(place.path(), elsewhere(2), Duration::ZERO).claim();
    let words = refused(impatient);
    assert!(words.contains("cannot be seen from here"), "{words}");

    let second = claimed(place.path(), elsewhere(2)).expect("the counter is unchanged");
    assert_eq!(second.owner().term, 2);
    // The first job goes on, which was only slow.
    assert!(!first.file().is_in_place().expect("readable"));
    let beat = Heartbeat::new(&path).beat().expect_err("the file has gone");
    assert_eq!(beat.kind(), ErrorKind::NotFound);
    first.remove();
    assert!(second.file().is_in_place().expect("readable"));
}

#[test]
fn one_node_at_a_time_rewrites_the_counter() {
    let place = tempfile::tempdir().expect("a directory");
    let owner = claimed(place.path(), job(1)).expect("it is new");
    let path = owner.file().path();
    let content = || fs::read_to_string(path).expect("readable");
    let [mut first, mut second] = [Heartbeat::new(path), Heartbeat::new(path)];
    second.beat().expect("writable");
    first.beat().expect("writable");
    for _ in 0..3 {
        let before = content();
        second.beat().expect("readable");
        assert_eq!(content(), before, "the first one has just written");
        first.beat().expect("writable");
        assert_ne!(content(), before);
    }
    // The first node is lost.
    second.beat().expect("readable");
    let before = content();
    second.beat().expect("writable");
    assert_ne!(content(), before);
}

#[test]
fn the_limits_of_earlier_owners_are_kept() {
    let place = tempfile::tempdir().expect("a directory");
    let key = |term, epoch| EpochKey {
        lineage: 7,
        term,
        generation: 0,
        epoch: Epoch(epoch),
    };
    let write = |key| {
        let worker = Worker(0);
        let name = EpochFileName { key, worker }.to_string();
        fs::write(place.path().join(name), "").expect("there is room");
    };
    let mut owners = Vec::new();
    for (nonce, epoch) in [(1, 4), (2, 6), (3, 8)] {
        let owner = claimed(place.path(), elsewhere(nonce)).expect("nothing beats");
        write(key(owner.owner().term, epoch));
        owners.push(owner);
    }
    // The first owner was slow, and completes one more.
    write(key(1, 5));
    let last = claimed(place.path(), elsewhere(4)).expect("nothing beats");
    let permits = |term, epoch| last.owner().permits(key(term, epoch));
    assert!(permits(1, 4) && permits(2, 6) && permits(3, 8) && permits(4, 1));
    assert!(!permits(1, 5) && !permits(3, 9));
}

/// The request is executed, its reply is lost, and the repeated request fails.
#[test]
fn a_link_is_valid_although_its_reply_is_lost() {
    let place = tempfile::tempdir().expect("a directory");
    let [unique, path] = ["unique", "name"].map(|name| place.path().join(name));
    let file = File::create(&unique).expect("there is room");
    assert!(link(&unique, &path, &file).expect("supported"));
    assert!(link(&unique, &path, &file).expect("supported"));
    let other = place.path().join("other");
    let file = File::create(&other).expect("there is room");
    assert!(!link(&other, &path, &file).expect("supported"));
}

#[test]
fn a_missing_directory_does_not_end_the_job() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join("disk");
    fs::create_dir(&directory).expect("there is room");
    let owner = claimed(&directory, job(1)).expect("it is new");
    fs::rename(&directory, place.path().join("elsewhere")).expect("it can be renamed");
    owner
        .file()
        .is_in_place()
        .expect_err("the directory is gone");
    fs::create_dir(&directory).expect("there is room");
    owner.file().is_in_place().expect_err("it is another one");
}
