//! Many failures, in many runs and in one run (`make soak`): no use of resources accumulates.

use ffi_tests::native_runs::native;
use ffi_tests::processes::{self, ResourceUse};
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Kill, Outcome, Random, Trigger, Verdicts};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const WORKERS: u32 = 4;

fn minutes() -> f64 {
    let minutes = std::env::var("FFI_TESTS_MINUTES")
        .ok()
        .and_then(|minutes| minutes.parse().ok());
    minutes.unwrap_or(10.0)
}

/// Two failures: one at a random line, one a random time after the recovery.
///
/// Each call draws an equal number of random numbers, so the seed determines the failures of the
/// n-th run, however long the other runs take.
fn deaths(random: &mut Random, lines: usize, spares: u32) -> [Kill; 2] {
    let first = random.below(u64::from(WORKERS)) as u32;
    let line = 1 + random.below(lines as u64 * 7 / 10) as usize;
    let delay = Duration::from_micros(random.below(15_000));
    // The replacement of the first victim can be the second victim, and so can the second spare.
    let others: Vec<u32> = (0..WORKERS + spares)
        .filter(|&rank| rank != first)
        .collect();
    let second = others[random.below(others.len() as u64) as usize];
    let later = Duration::from_micros(random.below(200_000));
    let witness = (0..WORKERS)
        .find(|&rank| rank != first && rank != second)
        .unwrap_or(0);
    let again = Trigger::Resume {
        rank: witness,
        recovery: 1,
    };
    [
        Kill::at(first, Trigger::Lines(line)).after(delay),
        Kill::at(second, again).after(later),
    ]
}

/// Shared memory of the machine in KiB.
fn shared_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Shared memory in KiB that may remain, including that of other processes.
const SHARED_MEMORY_LIMIT: u64 = 256 << 10;

fn judge(case: &TestProgram, undisturbed: &Outcome, outcome: &Outcome) {
    outcome.assert_success();
    outcome.assert_like_after(undisturbed, case.files, case.canonical);
    outcome.assert_nothing_left();
    let stray = outcome.temporary_files();
    outcome.check(
        stray.is_empty(),
        &format!("temporary files are left: {stray:?}"),
    );
}

#[test]
#[ignore = "takes as long as FFI_TESTS_MINUTES says (10 minutes); `make soak` runs it"]
fn runs_with_random_deaths_write_the_same_and_leave_nothing() {
    let end = Instant::now() + Duration::from_secs_f64(60.0 * minutes());
    let mut random = Random::announced("soak");
    let cases: Vec<TestProgram> = [Some(programs::cg()), programs::lammps()]
        .into_iter()
        .flatten()
        .collect();
    let (mut verdicts, mut runs, mut recoveries, mut missed) = (Verdicts::default(), 0, 0, 0);
    let own = |pid| processes::resource_use(pid).unwrap_or_default().descriptors;
    let mut before = None;
    while Instant::now() < end {
        for case in &cases {
            let undisturbed = native(case.job());
            let lines = case.lines_before_end(&undisturbed);
            // In every second pair of runs, a replacement joins the job during the second failure.
            let spares = if runs / 2 % 2 == 0 { 2 } else { 1 };
            let kills = deaths(&mut random, lines, spares);
            before.get_or_insert_with(|| (own(std::process::id()), shared_memory()));
            let mut job = case.job().workers(WORKERS).spares(spares);
            if spares == 1 {
                job = job.env("UNDERSTUDY_REPLENISH", "1");
            }
            let outcome = kills
                .into_iter()
                .fold(job, |job, kill| job.kill(kill))
                .run();
            runs += 1;
            recoveries += outcome.takeovers().len();
            missed += 2 - outcome.killed.iter().filter(|killed| killed.hit).count();
            let what = format!(
                "run {runs}, {}, {spares} spare(s), {:?}",
                case.name, outcome.killed
            );
            println!("{what}: {:?}", outcome.wall);
            verdicts.judge(&what, || judge(case, &undisturbed, &outcome));
        }
    }
    let (descriptors, memory) = before.unwrap_or_default();
    let (descriptors_now, memory_now) = (own(std::process::id()), shared_memory());
    println!(
        "{runs} runs, {recoveries} workers replaced, {missed} kills too late; shared memory of \
         the machine {memory} KiB, now {memory_now} KiB"
    );
    verdicts.judge("all runs together", || {
        assert!(
            recoveries >= runs,
            "{recoveries} workers replaced in {runs} runs"
        );
        assert_eq!(descriptors, descriptors_now, "descriptors of this process");
        assert!(
            memory_now < memory + SHARED_MEMORY_LIMIT,
            "shared memory is left: {memory} KiB, then {memory_now} KiB"
        );
    });
    verdicts.assert_all_good();
}

/// Number of recoveries of the long run.
const RECOVERIES: u32 = 34;
/// Number of recoveries at the end during which survivors must not grow.
const FLAT_RECOVERIES: usize = 20;
/// Permitted growth of memory in KiB during [`FLAT_RECOVERIES`] recoveries.
///
/// Less than the size of the communicators of one recovery, times [`FLAT_RECOVERIES`].
const MEMORY_LIMIT: u64 = 1024;
/// Permitted growth of the number of mappings; the number of descriptors must not grow.
const MAPPING_LIMIT: usize = 4;

/// Resources of a survivor before each failure.
type Uses = Vec<ResourceUse>;

fn assert_flat(who: &str, uses: &[ResourceUse]) {
    assert!(
        uses.len() > FLAT_RECOVERIES,
        "{who}: only {} polls",
        uses.len()
    );
    let late = &uses[uses.len() - FLAT_RECOVERIES - 1..];
    let (first, last) = (late[0], late[FLAT_RECOVERIES]);
    let highest = |of: fn(&ResourceUse) -> u64| late.iter().map(of).max().unwrap_or(0);
    println!("{who}: {first:?}, {FLAT_RECOVERIES} recoveries later {last:?}");
    let grown = highest(|it| it.memory).saturating_sub(first.memory);
    assert!(grown <= MEMORY_LIMIT, "{who}: {grown} KiB more memory");
    let most = highest(|it| it.descriptors as u64) as usize;
    assert!(
        most <= first.descriptors,
        "{who}: {most} descriptors after {}",
        first.descriptors
    );
    let grown = (highest(|it| it.mappings as u64) as usize).saturating_sub(first.mappings);
    assert!(grown <= MAPPING_LIMIT, "{who}: {grown} more mappings");
}

#[test]
#[ignore = "takes two minutes; `make soak` runs it"]
fn survivors_do_not_grow_in_a_run_with_many_recoveries() {
    let mut random = Random::announced("soak, one run");
    let (case, workers) = (programs::long_heat2d(), 3);
    // Worker 0 survives. Spares become replacements in order.
    let mut processes: Vec<u32> = (0..workers).collect();
    let mut victims = Vec::new();
    let mut job = case
        .job()
        .spares(RECOVERIES + 1)
        .limit(Duration::from_secs(400));
    for recovery in 0..RECOVERIES {
        let worker = 1 + random.below(u64::from(workers) - 1) as usize;
        let at = match recovery {
            0 => Trigger::Lines(2),
            recovery => Trigger::Resume { rank: 0, recovery },
        };
        let delay = Duration::from_millis(200 + random.below(200));
        job = job.kill(Kill::at(processes[worker], at).after(delay));
        victims.push(processes[worker]);
        processes[worker] = workers + recovery;
    }
    let last_spare = workers + RECOVERIES;
    let seen: Arc<Mutex<BTreeMap<u32, Uses>>> = Arc::default();
    let (seen_too, mut next_look) = (Arc::clone(&seen), Instant::now());
    let outcome = job
        .observe(move |ranks| {
            if Instant::now() < next_look {
                return;
            }
            next_look = Instant::now() + Duration::from_millis(20);
            let is_dead = |rank: &&u32| {
                ranks
                    .get(*rank)
                    .is_none_or(|it| processes::parent(it.pid).is_none())
            };
            let deaths = victims.iter().take_while(is_dead).count();
            for rank in [0, last_spare] {
                let mut seen = seen_too.lock().unwrap_or_else(PoisonError::into_inner);
                let uses = seen.entry(rank).or_default();
                // The last poll before the next failure counts.
                if let Some(now) = ranks
                    .get(&rank)
                    .and_then(|it| processes::resource_use(it.pid))
                {
                    uses.truncate(deaths);
                    uses.push(now);
                }
            }
        })
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    let count = outcome.takeovers().len();
    outcome.check(
        count == RECOVERIES as usize,
        &format!("{count} workers were replaced"),
    );
    outcome.assert_nothing_left();
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let mut verdicts = Verdicts::default();
    for (rank, who) in [(0, "worker 0"), (last_spare, "an idle spare")] {
        // After the last recovery, the program finalizes and releases memory.
        let uses = &seen[&rank][..RECOVERIES as usize];
        verdicts.judge(who, || assert_flat(who, uses));
    }
    verdicts.assert_all_good();
}
