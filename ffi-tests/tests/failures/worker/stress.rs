//! Many failures under a plain mpirun.
//!
//! The output is equal and no resource use grows, whichever ranks fail and however often. Only the
//! failure of a guardian, which mpirun sees, ends the job.

use ffi_tests::living_processes::{self, beside_work, living_and_lines};
use ffi_tests::native_runs::native;
use ffi_tests::processes::{self, ResourceUse};
use ffi_tests::programs::{self, TestProgram, heat2d};
use ffi_tests::{Job, Kill, Launcher, Outcome, Random, Trigger, is_thorough, paths, variants};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use understudy_formats::events::{EventReader, Kind, ProcessNumber, file_name};

fn job(case: &TestProgram) -> Job {
    case.job().launched_by(Launcher::Mpirun)
}

/// Fails unless the job succeeded with the output of an undisturbed run, and left nothing.
#[track_caller]
fn assert_undisturbed(case: &TestProgram, outcome: &Outcome, workers: u32) {
    outcome.assert_success();
    let alone = case.job().workers(workers).limit(Duration::from_secs(400));
    outcome.assert_like(&native(alone), case.files);
    outcome.assert_nothing_left();
}

/// Time between two failures.
const PERIOD: Duration = Duration::from_millis(300);

/// Kills a random process of a job every [`PERIOD`] for `time`.
///
/// The kills stop when `lines` lines have been printed. The output must be undisturbed, and at
/// least a third of the possible kills must have been made.
fn kill_for(case: &TestProgram, spares: u32, time: Duration, lines: usize) {
    let mut random = Random::announced("stress");
    let workers = case.job().worker_count();
    let deaths = Arc::new(Mutex::new(0));
    // The time starts when the job runs: it may have to wait for its turn.
    let (deaths_too, mut began, mut next) = (Arc::clone(&deaths), None, None);
    let job = job(case)
        .spares(spares)
        .limit(Duration::from_secs(60) + 6 * time);
    let outcome = job
        .watch(move |first| {
            let now = Instant::now();
            let began = *began.get_or_insert(now);
            if now < *next.get_or_insert(began + PERIOD) {
                return false;
            }
            let (living, printed) = living_and_lines(first, "heat2d");
            // Before the first line, a failure restarts the job, which would make no progress at
            // this rate of failures. At the end, failed workers are not replaced.
            if (2..lines).contains(&printed) && !living.is_empty() {
                let victim = random.below(living.len() as u64) as usize;
                let hit = living
                    .values()
                    .nth(victim)
                    .is_some_and(|&pid| processes::kill(pid));
                *deaths_too.lock().expect("no thread has failed") += u32::from(hit);
                next = Some(now + PERIOD);
            }
            began.elapsed() > time
        })
        .run();
    let deaths = *deaths.lock().expect("no thread has failed");
    println!("{deaths} deaths with {spares} spares, {:?}", outcome.wall);
    assert_undisturbed(case, &outcome, workers);
    let least = time.as_millis() / PERIOD.as_millis() / 3;
    outcome.check(
        u128::from(deaths) >= least,
        &format!("{deaths} deaths only"),
    );
}

#[test]
fn a_process_is_killed_every_300_ms() {
    kill_for(&programs::longer_heat2d(), 1, Duration::from_secs(2), 50);
}

#[test]
#[ignore = "takes minutes: make test-all"]
fn a_process_is_killed_every_300_ms_for_a_minute() {
    let case = TestProgram {
        name: "heat2d, very long",
        make: || {
            let arguments = [
                "200",
                "200",
                "700000",
                "heat.field",
                "--print-every",
                "5000",
                "--log",
                "heat.log",
            ];
            Job::new(paths::example("heat2d"), &arguments)
                .workers(3)
                .interval("50ms")
        },
        ..heat2d()
    };
    for spares in [1, 0] {
        kill_for(&case, spares, Duration::from_secs(60), 130);
    }
}

/// Resources of the ranks, guardians and manager of a job, and its files in memory.
type Uses = BTreeMap<(&'static str, u32), ResourceUse>;

/// Number of recoveries that a job has had, and its current resources.
///
/// `None` if the job is not complete, or if a process exits meanwhile.
fn measure(first: &living_processes::Ranks) -> Option<(usize, Uses)> {
    let directory = beside_work(first.get(&0)?.pid)?.join("events");
    let reader = EventReader::open(&directory.join(file_name(ProcessNumber(0)))).ok()?;
    let recoveries = reader
        .flatten()
        .filter(|record| matches!(record.kind, Kind::Resume { .. }))
        .count();
    let mut uses = Uses::new();
    for process in first.values() {
        uses.insert(
            ("process", process.pid),
            processes::resource_use(process.pid)?,
        );
        uses.insert(
            ("guardian", process.parent),
            processes::resource_use(process.parent)?,
        );
    }
    let manager = living_processes::manager(first)?;
    uses.insert(("manager", manager), processes::resource_use(manager)?);
    // The last argument of the manager is the job's directory.
    let words = processes::words(manager);
    let directory = words[0].iter().find(|word| word.ends_with("-launch"))?;
    let job = directory
        .rsplit('/')
        .next()?
        .trim_end_matches("launch")
        .to_owned();
    let files = paths::shared_memory()
        .iter()
        .filter(|file| file.file_name().to_string_lossy().starts_with(&job))
        .count();
    let in_memory = ResourceUse {
        descriptors: files,
        ..ResourceUse::default()
    };
    uses.insert(("files in memory", 0), in_memory);
    Some((recoveries, uses))
}

/// Least memory, fewest mappings and most descriptors between two numbers of recoveries.
///
/// All three vary within a recovery, in which memory has no upper bound.
fn bounds(seen: &[(usize, Uses)], from: usize, to: usize) -> Uses {
    let mut bounds = Uses::new();
    for (_, uses) in seen
        .iter()
        .filter(|(recoveries, _)| (from..to).contains(recoveries))
    {
        for (&who, found) in uses {
            let bound = bounds.entry(who).or_insert(*found);
            bound.memory = bound.memory.min(found.memory);
            bound.descriptors = bound.descriptors.max(found.descriptors);
            bound.mappings = bound.mappings.min(found.mappings);
        }
    }
    bounds
}

/// Permitted growth over at least 30 recoveries: KiB of memory, number of mappings.
///
/// The manager's memory includes reports of lost connections, which libpmix keeps for a while.
const LIMITS: (u64, usize) = (1024, 4);

/// Permitted growth of descriptors: connections of two generations of ranks to the manager.
///
/// Libpmix closes a connection in the manager some time after the rank has closed it.
const CONNECTIONS: usize = 2 * 5;

#[test]
fn nothing_grows_from_reinit_to_reinit() {
    let case = TestProgram {
        name: "heat2d, many renewals",
        make: || {
            let arguments = [
                "200",
                "200",
                "9000",
                "heat.field",
                "--print-every",
                "150",
                "--log",
                "heat.log",
            ];
            Job::new(paths::example("heat2d"), &arguments).interval("40calls")
        },
        ..heat2d()
    };
    let seen: Arc<Mutex<Vec<(usize, Uses)>>> = Arc::default();
    let (seen_too, mut next) = (Arc::clone(&seen), Instant::now());
    // Before the first commit is reported to all processes, a failure would restart the job.
    let wanted = if is_thorough() { 200 } else { 65 };
    let faults: Vec<String> = (2..wanted + 12)
        .map(|epoch| format!("renew rank=0 at=commit.end epoch={epoch}"))
        .collect();
    let outcome = job(&case)
        .fault(&faults.join("; "))
        .observe(move |first| {
            if Instant::now() >= next {
                seen_too
                    .lock()
                    .expect("no thread has failed")
                    .extend(measure(first));
                next = Instant::now() + Duration::from_millis(40);
            }
        })
        .run();
    assert_undisturbed(&case, &outcome, 4);
    let recoveries = outcome.recoveries();
    outcome.check(
        recoveries >= wanted,
        &format!("MPI was initialised again only {recoveries} times"),
    );
    let seen = seen.lock().expect("no thread has failed");
    let (early, late) = (
        bounds(&seen, 20, 35),
        bounds(&seen, wanted - 15, recoveries),
    );
    assert!(
        early.len() > 10 && early.len() == late.len(),
        "{} and {} processes were measured",
        early.len(),
        late.len()
    );
    for (who, before) in &early {
        let after = &late[who];
        println!("{who:?}: {before:?}, then {after:?}");
        assert!(
            after.descriptors <= before.descriptors + CONNECTIONS,
            "{who:?}: more descriptors, or more files in memory"
        );
        assert!(
            after.memory <= before.memory + LIMITS.0,
            "{who:?}: more memory"
        );
        assert!(
            after.mappings <= before.mappings + LIMITS.1,
            "{who:?}: more mappings"
        );
    }
}

#[test]
fn two_jobs_of_a_node_do_not_disturb_each_other() {
    // Both jobs print an equal number of lines.
    let case = TestProgram {
        name: "heat2d, many lines",
        make: || {
            let arguments = [
                "200",
                "200",
                "9000",
                "heat.field",
                "--print-every",
                "150",
                "--log",
                "heat.log",
            ];
            Job::new(paths::example("heat2d"), &arguments).interval("0.1s")
        },
        ..heat2d()
    };
    let struck = || {
        let kills =
            [(2, 10), (0, 25), (3, 40)].map(|(rank, lines)| Kill::at(rank, Trigger::Lines(lines)));
        kills.into_iter().fold(job(&case).spares(2), Job::kill)
    };
    let [left_alone, struck] = job(&case).run_beside(struck);
    assert_undisturbed(&case, &left_alone, 4);
    assert_undisturbed(&case, &struck, 4);
    left_alone.check(
        left_alone.recoveries() == 0,
        "the undisturbed job has had a recovery",
    );
    struck.assert_taken_over(&[2, 0, 3]);
}

/// A guardian is killed: mpirun reports the signal and ends the job.
#[test]
fn a_guardian_that_dies_under_mpirun_ends_the_job() {
    let case = programs::longer_heat2d();
    let kill_guardian = |first: &living_processes::Ranks| {
        let (_, printed) = living_and_lines(first, "heat2d");
        first
            .get(&1)
            .filter(|_| printed > 5)
            .is_some_and(|rank| processes::kill(rank.parent))
    };
    let outcome = job(&case).watch(kill_guardian).run();
    let ended = outcome.status.is_some_and(|status| !status.success());
    outcome.check(ended, "the job hangs, or has ended with status 0");
    outcome.check(
        outcome.stderr.contains("signal 9"),
        "no line names the signal",
    );
    outcome.assert_nothing_left();
}

/// A worker is killed while eight messages of 32 MiB are in flight.
///
/// The receivers read the messages from the senders' memory (Open MPI's smsc/cma) or copy them in
/// pieces. Every received byte is right after the recovery.
#[test]
fn large_messages_are_complete() {
    let mut random = Random::announced("bulk");
    let bulk = || {
        Job::new(paths::test_program("bulk"), &["3", "0", "32"])
            .interval("0.3s")
            .launched_by(Launcher::Mpirun)
    };
    let undisturbed = native(bulk());
    let text = String::from_utf8_lossy(&undisturbed.stdout);
    assert!(
        !text.contains("FAILED"),
        "`bulk` fails without understudy:\n{text}"
    );
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("round 1:"))
        .count();
    for smsc in variants(["cma", "^cma"], 1) {
        let delay = Duration::from_micros(random.below(60_000));
        let kill = Kill::at(1, Trigger::Lines(lines + 1)).after(delay);
        let outcome = bulk().env("OMPI_MCA_smsc", smsc).kill(kill).run();
        println!("{smsc}: {:?}", outcome.wall);
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_nothing_left();
        outcome.check(outcome.recoveries() >= 1, "no kill came in time");
    }
}
