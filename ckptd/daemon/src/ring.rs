//! The last events of each job, including some jobs that have ended.

use crate::pool::{JobKey, PoolChange};
use std::collections::{BTreeMap, VecDeque};
use understudy_formats::events::realtime_ns;
use understudy_wire::Event;

/// Limit of events of one job.
const MAX_EVENTS_PER_JOB: usize = 128;
/// Limit of ended jobs whose events are kept.
const MAX_ENDED_JOBS: usize = 16;

/// Events of all jobs.
#[derive(Debug, Default)]
pub(super) struct Rings {
    jobs: BTreeMap<JobKey, VecDeque<Event>>,
    /// Ended jobs, oldest first.
    ended: VecDeque<JobKey>,
}

impl Rings {
    pub(super) fn note(&mut self, key: &JobKey, what: String) {
        log::info!("{}: {what}", key.name);
        self.ended.retain(|ended| ended != key);
        let ring = self.jobs.entry(key.clone()).or_default();
        if ring.len() == MAX_EVENTS_PER_JOB {
            ring.pop_front();
        }
        let at = realtime_ns();
        ring.push_back(Event { at, what });
    }

    /// Records the end of a job.
    pub(super) fn end(&mut self, key: &JobKey) {
        self.note(
            key,
            "the job has ended, or has sent nothing for a long time".into(),
        );
        self.ended.push_back(key.clone());
        if self.ended.len() > MAX_ENDED_JOBS
            && let Some(oldest) = self.ended.pop_front()
        {
            self.jobs.remove(&oldest);
        }
    }

    /// Returns all jobs with recorded events.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (&JobKey, Vec<Event>)> {
        self.jobs
            .iter()
            .map(|(key, ring)| (key, ring.iter().cloned().collect()))
    }
}

pub(super) fn text(change: &PoolChange) -> String {
    match change {
        PoolChange::Registered { rank } => format!("rank {rank} has joined as a spare"),
        PoolChange::Left { rank } => format!("spare rank {rank} has left"),
        PoolChange::Died { rank, silent: true } => {
            format!("spare rank {rank} was silent for too long, and counts as failed")
        }
        PoolChange::Died {
            rank,
            silent: false,
        } => format!("spare rank {rank} has failed: its connection has broken"),
        PoolChange::Leased {
            rank,
            worker,
            round,
        } => {
            format!("spare rank {rank} is leased for worker {worker}, in round {round}")
        }
        PoolChange::Returned { rank, worker } => {
            format!("spare rank {rank} is idle again; worker {worker} does not need it")
        }
        PoolChange::TookOver { rank, worker } => format!("rank {rank} is worker {worker} now"),
        PoolChange::Wanted { count } => format!("{count} more spares are requested"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_bounded_and_keep_the_last() {
        let key = |number: usize| JobKey {
            realm: 0,
            name: format!("job{number}"),
        };
        let mut rings = Rings::default();
        for number in 0..3 * MAX_EVENTS_PER_JOB {
            rings.note(&key(0), number.to_string());
        }
        let events = rings.jobs().next().expect("one").1;
        assert_eq!(events.len(), MAX_EVENTS_PER_JOB);
        assert_eq!(
            events.last().expect("some").what,
            (3 * MAX_EVENTS_PER_JOB - 1).to_string()
        );
        for job in 1..3 * MAX_ENDED_JOBS {
            rings.note(&key(job), "it has come".into());
            rings.end(&key(job));
        }
        // The job that has not ended is still included.
        assert_eq!(rings.jobs().count(), MAX_ENDED_JOBS + 1);
        assert!(rings.jobs().any(|(job, _)| *job == key(0)));
    }
}
