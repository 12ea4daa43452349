//! The end of a job, and its remaining spares.

use crate::{Event, Recovery, RunRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use understudy_formats::events::{EndReason, Kind, NETWORK, ProcessNumber, Role};

/// The end of a job, as its processes or `understudy run` have recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Ended {
    /// All workers have reached the end of `MPI_Finalize`.
    Finished,
    /// A worker has called `exit` without `MPI_Finalize`.
    Exited { status: i32 },
    /// The job was ended by `MPI_Abort`, or by an error.
    Aborted { status: i32 },
    /// A failure without recovery.
    Lost { status: i32, reason: String },
    /// `understudy run` has ended, but some workers have not recorded an end.
    Stopped { status: i32, signal: Option<i32> },
    /// The job still runs, or was killed as a whole.
    ///
    /// At least one worker has not recorded an end.
    Unfinished,
}

/// Result of a job.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub ended: Ended,
    /// Number of failed processes.
    pub failures: usize,
    /// Number of completed recoveries.
    pub recoveries: usize,
    /// Number of spares that have neither failed nor taken over from a worker.
    pub spares_left: usize,
    /// Reason why the job was not protected, or not any more.
    pub unprotected: Option<String>,
    /// Network between nodes; `None` for a job on one node.
    pub network: Option<String>,
}

/// Collects the end of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct OutcomeCollector {
    roles: BTreeMap<ProcessNumber, Role>,
    lost: Option<(String, i32)>,
    unprotected: Option<String>,
    network: Option<String>,
    workers: usize,
    /// Recorded ends of processes in order of time.
    ends: Vec<(ProcessNumber, EndReason)>,
}

impl OutcomeCollector {
    pub fn add(&mut self, event: &Event) {
        match &event.kind {
            Kind::Start { role, workers, .. } => {
                self.roles.insert(event.rank, *role);
                self.workers = *workers as usize;
            }
            Kind::Takeover { as_worker, .. } => {
                self.roles.insert(event.rank, Role::Worker(*as_worker));
            }
            Kind::Config { settings } => {
                let network = settings.iter().find(|(name, _)| name == NETWORK);
                let value = network.map(|(_, value)| value.clone());
                self.network = self.network.take().or(value);
            }
            Kind::Lost { reason, status } => self.lost = Some((reason.clone(), *status)),
            Kind::Refused { reason } => self.unprotected = Some(reason.clone()),
            Kind::End { how } => self.ends.push((event.rank, *how)),
            _ => {}
        }
    }

    /// Returns the outcome; `run` decides if some workers have recorded no end.
    pub fn finish(self, recoveries: &[Recovery], run: Option<&RunRecord>) -> Outcome {
        let Self {
            roles,
            lost,
            unprotected,
            network,
            workers,
            ends,
        } = self;
        let failed: BTreeSet<ProcessNumber> = recoveries
            .iter()
            .flat_map(|recovery| recovery.failed.iter().map(|failed| failed.rank))
            .collect();
        let has_reported: BTreeSet<ProcessNumber> = ends.iter().map(|(rank, _)| *rank).collect();
        let ends: Vec<EndReason> = ends.into_iter().map(|(_, how)| how).collect();
        let first = |wanted: fn(&EndReason) -> Option<i32>| ends.iter().find_map(wanted);
        let has_no_end = |(rank, role): &(&ProcessNumber, &Role)| {
            matches!(role, Role::Worker(_))
                && !failed.contains(rank)
                && !has_reported.contains(rank)
        };
        let without_end: Vec<String> = roles
            .iter()
            .filter(has_no_end)
            .map(|(rank, _)| rank.to_string())
            .collect();
        let failed_run = run
            .filter(|run| run.signal.is_none())
            .and_then(|run| run.status);
        let failed_run = failed_run.filter(|&status| status != 0 && !without_end.is_empty());
        let mut failed_without_record = 0;
        let ended = if let Some((reason, status)) = lost {
            Ended::Lost { status, reason }
        } else if let Some(status) =
            first(|how| matches!(how, EndReason::Aborted(_)).then(|| status_of(*how)))
        {
            Ended::Aborted { status }
        } else if let Some(status) =
            first(|how| matches!(how, EndReason::Exited(_)).then(|| status_of(*how)))
        {
            Ended::Exited { status }
        } else if workers > 0
            && ends
                .iter()
                .filter(|how| **how == EndReason::Finalized)
                .count()
                >= workers
        {
            Ended::Finished
        } else if let Some(status) = failed_run {
            failed_without_record = without_end.len();
            let reason = format!(
                "{} {} failed, and no process was left to record the cause",
                if failed_without_record == 1 {
                    "rank"
                } else {
                    "ranks"
                },
                without_end.join(", ")
            );
            Ended::Lost {
                status: status.into(),
                reason,
            }
        } else if let Some((run, status)) = run.and_then(|run| Some((run, run.status?))) {
            Ended::Stopped {
                status: status.into(),
                signal: run.signal,
            }
        } else {
            Ended::Unfinished
        };
        // Processes record no death of an idle spare, but a finished job releases its spares.
        let is_unused_spare = |(rank, role): &(&ProcessNumber, &Role)| {
            matches!(role, Role::Spare(_))
                && !failed.contains(rank)
                && (ended != Ended::Finished || has_reported.contains(rank))
        };
        let spares_left = roles.iter().filter(is_unused_spare).count();
        Outcome {
            ended,
            failures: failed.len() + failed_without_record,
            recoveries: recoveries
                .iter()
                .filter(|recovery| recovery.number != 0 && recovery.resumed_ns.is_some())
                .count(),
            spares_left,
            unprotected,
            network,
        }
    }
}

impl Outcome {
    /// Describes the end of a job in which some workers have not recorded an end.
    pub fn stopped_in_words(&self) -> String {
        let Ended::Stopped { status, signal } = self.ended else {
            return String::new();
        };
        match signal {
            Some(signal) => format!(
                "the job was ended by {} (status {status})",
                signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
            ),
            None => {
                format!("the job ended with status {status}, and not all workers recorded an end")
            }
        }
    }

    /// Returns the exit status of the job; `None` if neither processes nor `run` recorded one.
    pub fn status(&self) -> Option<i32> {
        match &self.ended {
            Ended::Finished => Some(0),
            Ended::Exited { status }
            | Ended::Aborted { status }
            | Ended::Stopped { status, .. }
            | Ended::Lost { status, .. } => Some(*status),
            Ended::Unfinished => None,
        }
    }
}

fn status_of(how: EndReason) -> i32 {
    match how {
        EndReason::Exited(status) | EndReason::Aborted(status) => status,
        EndReason::Finalized | EndReason::Released => 0,
    }
}
