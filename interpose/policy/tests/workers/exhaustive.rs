//! All interleavings of stages and a few failures, for five workers on three nodes.

use crate::checkpoint::all_states;
use crate::job::{Failure, Job, JobState};
use std::collections::HashSet;
use std::sync::Arc;
use understudy_numbers::Epoch;
use understudy_policy::redundancy::Redundancy;
use understudy_settings::Scheme;

const WORKERS: u32 = 5;
/// Node of each worker; each node has one or two workers.
const NODES: [u32; WORKERS as usize] = [0, 0, 1, 1, 2];

/// Returns all failures of one process.
fn process_failures() -> Vec<Failure> {
    let mut failures = Vec::new();
    for leaves_replicas in [true, false] {
        failures.extend((0..WORKERS as usize).map(|process| Failure {
            failed: vec![process],
            leaves_replicas,
        }));
    }
    failures
}

/// Returns all failures of one process or of one node.
fn failures() -> Vec<Failure> {
    let mut failures = process_failures();
    failures.extend([[0, 1], [2, 3]].map(|node| Failure {
        failed: node.to_vec(),
        leaves_replicas: false,
    }));
    failures
}

/// Number of states and outcomes that an exploration has seen.
#[derive(Debug, Default)]
struct Explored {
    meetings: usize,
    /// Number of lost jobs after one failure, after two failures, and so on.
    lost: Vec<usize>,
    successes: usize,
    states: usize,
}

/// Explores a job from each of these states, with up to `depth` failures in recoveries.
///
/// `outcomes` returns the states after one more failure.
fn explore(start: Vec<Job>, depth: u32, outcomes: impl Fn(&Job) -> Vec<Job>) -> Explored {
    let mut seen: HashSet<JobState> = start.iter().map(Job::state).collect();
    let mut explored = Explored::default();
    let mut level = start;
    for remaining in (0..=depth).rev() {
        let mut next_level = Vec::new();
        let mut lost = 0;
        for mut job in level {
            explored.meetings += 1;
            if !job.meet() {
                lost += 1;
                continue;
            }
            if remaining == 0 {
                run_to_success(job);
                explored.successes += 1;
                continue;
            }
            let mut effects = HashSet::new();
            let states = attempt_states(job, &mut explored);
            for state in states
                .iter()
                .filter(|state| effects.insert(state.effects()))
            {
                for next in outcomes(state) {
                    if seen.insert(next.state()) {
                        next_level.push(next);
                    }
                }
            }
        }
        explored.lost.push(lost);
        level = next_level;
    }
    explored
}

/// Runs an attempt without a failure.
///
/// Every order of the stages has the same result.
fn run_to_success(mut job: Job) {
    while !job.has_succeeded() {
        let movable = (0..WORKERS as usize).find(|&index| job.can_proceed(index));
        let index = movable.unwrap_or_else(|| panic!("all processes wait: {job:?}"));
        job.proceed(index);
    }
}

/// Returns all states of an attempt without a failure.
fn attempt_states(start: Job, explored: &mut Explored) -> Vec<Job> {
    let mut seen = HashSet::from([start.state()]);
    let (mut states, mut waiting) = (Vec::new(), vec![start]);
    while let Some(state) = waiting.pop() {
        let movable: Vec<usize> = (0..WORKERS as usize)
            .filter(|&index| state.can_proceed(index))
            .collect();
        assert!(
            !movable.is_empty() || state.has_succeeded(),
            "all processes wait: {state:?}"
        );
        explored.states += 1;
        explored.successes += usize::from(state.has_succeeded());
        for index in movable {
            let mut next = state.clone();
            next.proceed(index);
            if seen.insert(next.state()) {
                waiting.push(next);
            }
        }
        states.push(state);
    }
    states
}

/// Returns the states after one of these failures.
///
/// Survivors notice a failure at any later moment. Until then they proceed only as far as the
/// stages of the failed processes permit. So the states at these moments are also states without
/// the failure, from each of which the exploration lets a process fail.
fn after_failure(state: &Job, failures: Vec<Failure>) -> Vec<Job> {
    let failed = failures.into_iter().map(|failure| {
        let mut job = state.clone();
        job.fail(&failure);
        job
    });
    failed.collect()
}

/// Returns the states after one more failure or one found damage.
fn after_failure_or_damage(state: &Job) -> Vec<Job> {
    let loading = (0..WORKERS as usize).filter(|&index| state.loads(index));
    let damages = loading.flat_map(|index| [(index, false), (index, true)]);
    let damaged = damages.map(|(index, stored)| {
        let mut job = state.clone();
        job.find_damage(index, stored);
        job
    });
    let failed = after_failure(state, failures());
    failed.into_iter().chain(damaged).collect()
}

/// Returns all states after a first failure at any moment of a checkpoint.
fn after_first_failure(
    redundancy: &Arc<Redundancy>,
    pending: Epoch,
    failures: &[Failure],
    can_defer: bool,
) -> Vec<Job> {
    let mut seen = HashSet::new();
    let mut jobs = Vec::new();
    for checkpoint in all_states(WORKERS, pending, redundancy) {
        let processes = checkpoint.processes(redundancy, &[0; WORKERS as usize]);
        let job = Job {
            redundancy: Arc::clone(redundancy),
            newest: processes
                .iter()
                .map(|process| process.committed)
                .max()
                .unwrap_or_default(),
            processes,
            files: None,
            plan: None,
            can_defer,
        };
        for failure in failures {
            let mut job = job.clone();
            job.fail(failure);
            if seen.insert(job.state()) {
                jobs.push(job);
            }
        }
    }
    jobs
}

fn explore_scheme(scheme: Scheme, pending: Epoch, can_defer: bool) -> Explored {
    // With two failures in recoveries, the exploration takes minutes.
    let depth = match std::env::var_os("FFI_TESTS_ALL") {
        Some(_) => 2,
        None => 1,
    };
    let redundancy = Arc::new(Redundancy::place(&NODES, 1, scheme));
    let start = after_first_failure(&redundancy, pending, &failures(), can_defer);
    let explored = explore(start, depth, after_failure_or_damage);
    println!("{scheme:?}, {pending:?}, {can_defer}: {explored:?}");
    assert!(explored.successes > 0);
    explored
}

#[test]
fn one_replica_of_each_worker_survives_any_failure() {
    for can_defer in [false, true] {
        let lost = explore_scheme(Scheme::Copies(1), Epoch(2), can_defer).lost;
        assert_eq!(lost[0], 0, "jobs are lost after one failure");
    }
}

#[test]
fn two_replicas_of_each_worker_survive_any_failure() {
    for can_defer in [false, true] {
        let lost = explore_scheme(Scheme::Copies(2), Epoch(2), can_defer).lost;
        assert_eq!(lost[0], 0, "jobs are lost after one failure");
    }
}

/// The second process fails at any moment of the recovery from the first failure.
#[test]
fn two_replicas_of_each_worker_survive_any_two_failures_of_processes() {
    let redundancy = Arc::new(Redundancy::place(&NODES, 1, Scheme::Copies(2)));
    for can_defer in [false, true] {
        let start = after_first_failure(&redundancy, Epoch(2), &process_failures(), can_defer);
        let explored = explore(start, 1, |state| after_failure(state, process_failures()));
        println!("{can_defer}: {explored:?}");
        assert!(explored.successes > 0);
        assert_eq!(explored.lost, [0, 0], "jobs are lost");
    }
}

#[test]
fn parity_survives_any_failure() {
    let lost = explore_scheme(Scheme::Parity(3), Epoch(2), true).lost;
    assert_eq!(lost[0], 0, "jobs are lost after one failure");
}

#[test]
fn a_failure_in_the_first_checkpoint_restarts_the_job_or_completes_it() {
    let explored = explore_scheme(Scheme::Copies(1), Epoch(1), false);
    assert!(explored.lost[0] > 0, "no job starts again");
}
