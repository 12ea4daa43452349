//! Every line is printed exactly once, in order, and without long delays.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Outcome, Random, Trigger, Verdicts, paths, processes, variants};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const WORKERS: u32 = 4;
const LINES: usize = 600;

fn chatter() -> Job {
    Job::new(
        paths::test_program("chatter"),
        &[&LINES.to_string(), "1000"],
    )
    .interval("0.1s")
}

/// Numbers of the lines that each rank has printed, in the order of the output.
fn by_rank(outcome: &Outcome) -> BTreeMap<u32, Vec<usize>> {
    let mut found: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&outcome.stdout).lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
        let (Some(rank), Some(line)) = (number(1), number(5)) else {
            outcome.check(false, &format!("a damaged line: `{line}`"));
            return found;
        };
        found.entry(rank as u32).or_default().push(line);
    }
    found
}

fn assert_complete(outcome: &Outcome) {
    let found = by_rank(outcome);
    for rank in 0..WORKERS {
        let numbers = found.get(&rank).cloned().unwrap_or_default();
        let wrong = numbers
            .iter()
            .enumerate()
            .find(|(index, number)| index != *number);
        outcome.check(
            wrong.is_none(),
            &format!(
                "rank {rank}: line {wrong:?} (index, number) is out of order, lost or doubled"
            ),
        );
        outcome.check(
            numbers.len() == LINES,
            &format!("rank {rank} has printed {} lines", numbers.len()),
        );
    }
}

#[test]
fn every_line_of_every_rank_is_printed_once_and_in_order_after_failures() {
    let undisturbed = native(chatter());
    let mut random = Random::announced("output");
    let mut verdicts = Verdicts::default();
    // Each worker fails in one half of the run, then each in the other half.
    let moments =
        (0..2).flat_map(|round| (0..WORKERS).map(move |worker| (worker, (worker + round) % 2)));
    for (worker, part) in variants(moments, 2) {
        let half = LINES * WORKERS as usize * 2 / 5;
        let line = 1 + part as usize * half + random.below(half as u64) as usize;
        let kill =
            Kill::at(worker, Trigger::Lines(line)).after(Duration::from_micros(random.below(5000)));
        let outcome = chatter().kill(kill).run();
        println!("{kill:?}: {:?}", outcome.wall);
        verdicts.judge(&format!("{kill:?}"), || {
            outcome.assert_success();
            assert_complete(&outcome);
            outcome.assert_same_lines(&undisturbed);
            outcome.assert_taken_over(&[worker]);
        });
    }
    verdicts.assert_all_good();
}

/// `understudy run` cannot write to standard output; it reports the loss and fails.
///
/// Standard error has a line at the bottom, as on a terminal, or plain lines.
#[test]
fn output_without_space_is_reported_and_fails() {
    for progress in ["line", "plain"] {
        paths::wait_for_turn();
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let mut run = Command::new(paths::product("understudy"));
        run.args([
            "run",
            "-n",
            "2",
            "--spares",
            "0",
            "--progress",
            progress,
            "--",
        ]);
        let ended = run
            .arg(paths::test_program("chatter"))
            .arg("20")
            .stdout(full)
            .output();
        let ended = ended.expect("understudy can be executed");
        assert_eq!(ended.status.code(), Some(74), "{ended:?}");
        assert!(
            String::from_utf8_lossy(&ended.stderr).contains("the rest of it is lost"),
            "{ended:?}"
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_run_that_ends_without_mpi_finalize_loses_no_output() {
    let program = paths::test_program("chatter");
    let job = || Job::new(&program, &["100", "0", "no-finalize"]);
    let (with, without) = (job().run(), job().native().run());
    with.check(with.status.is_some(), "the job hangs");
    // Open MPI alone kills ranks before they have written their last lines.
    let whole = Job::new(&program, &["100", "0"]).native().run();
    with.assert_same_lines(&whole);
    with.assert_nothing_left();
    let status = |outcome: &Outcome| outcome.status.and_then(|status| status.code());
    with.check(
        status(&with) == status(&without),
        &format!(
            "status {:?} of the native run is another one",
            status(&without)
        ),
    );
}

/// Returns a function that watches a file and returns the longest time without growth.
fn growth(path: PathBuf) -> impl FnMut() -> Option<Duration> {
    let (mut length, mut since, mut longest) = (0, Instant::now(), Duration::ZERO);
    move || {
        let now = std::fs::metadata(&path).ok()?.len();
        if now > length {
            if length > 0 {
                longest = longest.max(since.elapsed());
            }
            (length, since) = (now, Instant::now());
        }
        Some(longest)
    }
}

/// Path of the file to which a process or its nearest ancestor writes its output.
fn output_of(mut process: u32) -> PathBuf {
    loop {
        let stdout = std::fs::read_link(format!("/proc/{process}/fd/1")).unwrap_or_default();
        match processes::parent(process) {
            Some(parent) if !stdout.is_file() => process = parent,
            _ => return stdout,
        }
    }
}

#[test]
fn lines_arrive_while_the_program_runs() {
    // A flushed line is written at once, so the output never pauses for long, with or without
    // checkpoints.
    let longest = std::sync::Arc::new(std::sync::Mutex::new(Duration::ZERO));
    let result = std::sync::Arc::clone(&longest);
    let mut watched: Option<Box<dyn FnMut() -> Option<Duration>>> = None;
    let outcome = Job::new(paths::test_program("chatter"), &["600", "2000"])
        .interval("0.5s")
        .observe(move |ranks| {
            let Some(launcher) = ranks.values().next().map(|process| process.parent) else {
                return;
            };
            let growth = watched.get_or_insert_with(|| Box::new(growth(output_of(launcher))));
            if let (Some(gap), Ok(mut longest)) = (growth(), result.lock()) {
                *longest = gap;
            }
        })
        .run();
    outcome.assert_success();
    let longest = *longest.lock().expect("no thread has panicked");
    println!(
        "longest pause of the output: {longest:?} in {:?}",
        outcome.wall
    );
    outcome.check(
        longest > Duration::ZERO,
        "the output was written all at once",
    );
    outcome.check(
        longest < Duration::from_millis(400),
        &format!("the output paused for {longest:?}"),
    );
}

/// Returns the lines without times, and the number of lines with times.
///
/// A line whose time is not a number is an error.
fn without_times(outcome: &Outcome) -> (Vec<String>, usize) {
    let is_time = |line: &str| {
        let time = line
            .strip_prefix("took ")
            .and_then(|rest| rest.strip_suffix(" s"));
        time.is_some_and(|time| time.parse::<f64>().is_ok())
    };
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let (times, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| is_time(line));
    (others.into_iter().map(str::to_owned).collect(), times.len())
}

/// A report contains times of varying length; a rollback repeats none of its other lines.
#[test]
fn times_of_another_length_cost_no_other_line() {
    const STEPS: usize = 50;
    const BLOCKS: usize = 20;
    let job = || {
        Job::new(
            paths::test_program("times"),
            &[&STEPS.to_string(), &BLOCKS.to_string()],
        )
        .interval("20calls")
    };
    let undisturbed = native(job());
    let mut verdicts = Verdicts::default();
    for worker in [0, 1] {
        for block in variants([7, 1, 19], 1) {
            // The program makes two calls before the steps.
            let call = 2 + STEPS + block;
            let outcome = job()
                .fault(&format!("kill rank={worker} at=call:{call}"))
                .run();
            verdicts.judge(&format!("worker {worker} killed at call {call}"), || {
                outcome.assert_success();
                outcome.assert_taken_over(&[worker]);
                assert_eq!(without_times(&outcome), without_times(&undisturbed));
            });
        }
    }
    verdicts.assert_all_good();
}
