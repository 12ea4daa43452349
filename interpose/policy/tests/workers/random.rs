//! Random jobs: more workers, several checkpoints, and any number of failures.

use crate::checkpoint::Checkpoint;
use crate::dice::Dice;
use crate::job::{Failure, Job};
use crate::process::Process;
use std::sync::Arc;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::redundancy::Redundancy;
use understudy_settings::Scheme;

const JOBS: u64 = 3_000;
const EPOCHS: u64 = 6;

impl Dice {
    fn failure(&mut self, workers: usize) -> Failure {
        let first = self.below(workers);
        let count = 1 + self.below(2);
        Failure {
            failed: (first..(first + count).min(workers)).collect(),
            leaves_replicas: self.below(2) == 0,
        }
    }
}

/// Runs the recovery of a job; returns the epoch to which the job has returned.
///
/// The second result has the layers of each worker that the next checkpoint brings. `None` if the
/// job is lost.
fn recover(mut job: Job, dice: &mut Dice, recoveries: &mut u64) -> Option<(Epoch, Vec<u64>)> {
    let workers = job.processes.len();
    while job.meet() {
        *recoveries += 1;
        let mut fails_in = match dice.below(3) {
            0 => dice.below(8 * workers),
            _ => usize::MAX,
        };
        loop {
            if job.has_succeeded() {
                let lacking = |process: &Process| {
                    let record = process
                        .record
                        .expect("each worker has recorded its replicas");
                    record.lacking
                };
                let lacking = job.processes.iter().map(lacking).collect();
                return Some((job.processes[0].committed, lacking));
            }
            if fails_in == 0 {
                let loading: Vec<usize> = (0..workers).filter(|&at| job.loads(at)).collect();
                match loading.first() {
                    Some(&at) if dice.below(2) == 0 => job.find_damage(at, dice.below(2) == 0),
                    _ => job.fail(&dice.failure(workers)),
                }
                break;
            }
            let movable: Vec<usize> = (0..workers).filter(|&at| job.can_proceed(at)).collect();
            assert!(!movable.is_empty(), "all processes wait: {job:?}");
            job.proceed(movable[dice.below(movable.len())]);
            fails_in -= 1;
        }
    }
    None
}

/// Runs a job until it has taken all checkpoints.
///
/// Returns the number of recoveries, and true if the job is lost.
fn run(seed: u64) -> (u64, bool) {
    let mut dice = Dice(seed);
    let workers = 4 + dice.below(13) as u32;
    let per_node = 1 + dice.below(4) as u32;
    let domains: Vec<u32> = (0..workers).map(|worker| worker / per_node).collect();
    let scheme = match dice.below(3) {
        0 => Scheme::Parity(3),
        copies => Scheme::Copies(copies as u32),
    };
    let redundancy = Arc::new(Redundancy::place(&domains, 1, scheme));
    let can_defer = dice.below(2) == 0;
    let mut lacking = vec![0; workers as usize];
    let (mut recoveries, mut epoch) = (0, Epoch(2));
    while epoch.0 < EPOCHS {
        let mut checkpoint = Checkpoint::captured(workers, epoch);
        let all = || Worker::all(workers);
        let is_committed = |checkpoint: &Checkpoint, worker| checkpoint.epochs(worker).0 == epoch;
        let mut steps = dice.below(20 * workers as usize);
        while steps > 0 && !all().all(|worker| is_committed(&checkpoint, worker)) {
            checkpoint.proceed(Worker(dice.below(workers as usize) as u32), &redundancy);
            steps -= 1;
        }
        let processes = checkpoint.processes(&redundancy, &lacking);
        let committed = processes.iter().map(|process| process.committed);
        let mut job = Job {
            redundancy: Arc::clone(&redundancy),
            newest: committed.max().unwrap_or_default(),
            processes,
            files: None,
            plan: None,
            can_defer,
        };
        job.fail(&dice.failure(workers as usize));
        match recover(job, &mut dice, &mut recoveries) {
            Some((resumed, lacking_then)) => (epoch, lacking) = (resumed.next(), lacking_then),
            None => return (recoveries, true),
        }
    }
    (recoveries, false)
}

#[test]
fn random_jobs_resume_or_are_lost_with_good_reason() {
    let (mut recoveries, mut lost) = (0, 0);
    for seed in 0..JOBS {
        let (recoveries_of_job, is_lost) = run(seed);
        recoveries += recoveries_of_job;
        lost += u64::from(is_lost);
    }
    println!("{JOBS} jobs, {recoveries} attempts, {lost} jobs lost");
    assert!(lost < JOBS, "no job has survived");
}
