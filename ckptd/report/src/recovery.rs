//! Statistics of each recovery.

use crate::described::described;
use crate::{CheckpointPoint, Event};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use understudy_formats::events::{Epoch, Kind, ProcessNumber, RecoveryStage, Role, Spare, Worker};

/// A process that has failed.
#[derive(Debug, Serialize)]
pub struct FailedRank {
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    /// Role of the process when it failed, if its file contains it.
    #[serde(serialize_with = "described")]
    pub role: Option<Role>,
    /// Cause of the failure, as reported by other processes.
    pub cause: Option<String>,
    /// Time of the last record of the process.
    pub last_sign_ns: Option<u64>,
    /// Time of a kill by fault injection, if any.
    pub killed_ns: Option<u64>,
}

/// A process that has taken over from a worker.
#[derive(Debug, Serialize)]
pub struct TakeoverBy {
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    #[serde(serialize_with = "described")]
    pub spare: Spare,
    #[serde(serialize_with = "described")]
    pub as_worker: Worker,
    /// True for a process that was not among the first spares of the job.
    pub is_new: bool,
}

impl TakeoverBy {
    /// Returns the process as text.
    pub fn process(&self) -> String {
        match self.is_new {
            true => format!("rank {}, a new process", self.rank),
            false => format!("rank {} (spare {})", self.rank, self.spare),
        }
    }
}

/// Duration of a stage over all ranks.
#[derive(Debug, Serialize)]
pub struct StageTime {
    #[serde(serialize_with = "described")]
    pub stage: RecoveryStage,
    pub max_ns: u64,
    /// Rank with the longest duration.
    #[serde(serialize_with = "described")]
    pub slowest: ProcessNumber,
    pub ranks: usize,
}

/// A recovery; times are on the job's clock.
#[derive(Debug, Default, Serialize)]
pub struct Recovery {
    pub number: u32,
    pub failed: Vec<FailedRank>,
    /// Time of the failure, according to the rank that has printed the recovery's message.
    pub failed_ns: Option<u64>,
    /// Time of the first detection.
    pub detected_ns: Option<u64>,
    #[serde(serialize_with = "described")]
    pub detected_by: Option<ProcessNumber>,
    pub error_class: Option<String>,
    pub takeovers: Vec<TakeoverBy>,
    /// Epoch from which the job has resumed.
    #[serde(serialize_with = "described")]
    pub epoch: Option<Epoch>,
    pub stages: Vec<StageTime>,
    #[serde(serialize_with = "described")]
    pub resumed: Vec<ProcessNumber>,
    /// Time when the last rank has resumed the program.
    pub resumed_ns: Option<u64>,
    /// Time from the failure to the resumed program, as printed by the job.
    pub failure_to_resume_ns: Option<u64>,
    pub kill_to_resume_ns: Option<u64>,
    /// Repeated computing time of each worker.
    pub repeated_ns: Option<u64>,
}

fn recovery_number(kind: &Kind) -> Option<u32> {
    match *kind {
        Kind::FailureDetected { recovery, .. }
        | Kind::Death { recovery, .. }
        | Kind::Stage { recovery, .. }
        | Kind::Takeover { recovery, .. }
        | Kind::Resume { recovery, .. } => Some(recovery),
        _ => None,
    }
}

/// Collects the recoveries of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct RecoveryCollector {
    recoveries: BTreeMap<u32, Progress>,
    ranks: BTreeMap<ProcessNumber, RankHistory>,
    /// Number of spares with which the job was started.
    spares: u32,
}

/// A recovery whose events are being collected.
#[derive(Debug)]
struct Progress {
    recovery: Recovery,
    stages: BTreeMap<RecoveryStage, StageTime>,
    failed: BTreeSet<ProcessNumber>,
    /// The return of each rank to the program.
    returns: BTreeMap<ProcessNumber, ReturnToProgram>,
}

/// The return of a rank to the program after a failure.
#[derive(Debug, Clone, Copy)]
struct ReturnToProgram {
    /// Time on the job's clock.
    at_ns: u64,
    since_failure_ns: u64,
}

/// Role and records of a rank, for the case of its failure.
#[derive(Debug, Default)]
struct RankHistory {
    role: Option<Role>,
    last_sign_ns: Option<u64>,
    killed_ns: Option<u64>,
    /// Worker that the rank ran, as reported by other ranks after its death.
    worker: Option<Worker>,
    cause: Option<String>,
}

impl RecoveryCollector {
    pub fn add(&mut self, event: &Event) {
        let history = self.ranks.entry(event.rank).or_default();
        history.last_sign_ns = history.last_sign_ns.max(Some(event.at_ns));
        match &event.kind {
            Kind::Start { role, spares, .. } => {
                history.role = Some(*role);
                self.spares = self.spares.max(*spares);
            }
            Kind::Takeover { as_worker, .. } => history.role = Some(Role::Worker(*as_worker)),
            Kind::Kill { .. } => history.killed_ns = history.killed_ns.max(Some(event.at_ns)),
            Kind::Death {
                rank,
                worker,
                cause,
                ..
            } => {
                let dead = self.ranks.entry(*rank).or_default();
                dead.worker.get_or_insert(*worker);
                // Only processes of the same node can determine the cause.
                if cause != "unknown" {
                    dead.cause.get_or_insert_with(|| cause.clone());
                }
            }
            _ => {}
        }
        if let Some(number) = recovery_number(&event.kind) {
            let progress = self.recoveries.entry(number);
            let progress = progress.or_insert_with(|| Progress::new(number));
            progress.add(event, self.spares);
        }
    }

    /// Returns the recoveries; `points` are the checkpoints of the job.
    pub fn finish(self, points: &[CheckpointPoint]) -> Vec<Recovery> {
        let Self {
            recoveries, ranks, ..
        } = self;
        let finished = recoveries.into_values();
        finished
            .map(|recovery| recovery.finish(&ranks, points))
            .collect()
    }
}

impl Progress {
    fn new(number: u32) -> Self {
        Self {
            recovery: Recovery {
                number,
                ..Recovery::default()
            },
            stages: BTreeMap::new(),
            failed: BTreeSet::new(),
            returns: BTreeMap::new(),
        }
    }

    /// Adds an event; `spares` is the number of spares with which the job was started.
    fn add(&mut self, event: &Event, spares: u32) {
        let recovery = &mut self.recovery;
        match &event.kind {
            Kind::FailureDetected {
                failed: ranks, by, ..
            } => {
                self.failed.extend(ranks);
                if recovery.detected_ns.is_none() {
                    recovery.detected_ns = Some(event.at_ns);
                    recovery.detected_by = Some(event.rank);
                    recovery.error_class = Some(by.to_string());
                }
            }
            Kind::Death { rank, .. } => drop(self.failed.insert(*rank)),
            Kind::Stage { stage, ns, .. } => add_stage(&mut self.stages, *stage, event.rank, *ns),
            Kind::Takeover {
                from, as_worker, ..
            } => {
                recovery.takeovers.push(TakeoverBy {
                    rank: event.rank,
                    spare: *from,
                    as_worker: *as_worker,
                    is_new: from.0 >= spares,
                });
            }
            Kind::Resume {
                epoch, total_ns, ..
            } => {
                self.returns.insert(
                    event.rank,
                    ReturnToProgram {
                        at_ns: event.at_ns,
                        since_failure_ns: *total_ns,
                    },
                );
                recovery.epoch = recovery.epoch.max(Some(*epoch));
                recovery.resumed.push(event.rank);
                recovery.resumed_ns = Some(event.at_ns);
            }
            _ => {}
        }
    }

    /// Finds the return to the program of the rank that has printed the recovery's message.
    ///
    /// The rank of the lowest replaced worker prints the message, or that of worker 0 if no worker
    /// was replaced.
    fn reported_return(
        &self,
        ranks: &BTreeMap<ProcessNumber, RankHistory>,
    ) -> Option<ReturnToProgram> {
        let is_first = |rank: &ProcessNumber| {
            let role = ranks.get(rank).and_then(|history| history.role);
            role == Some(Role::Worker(Worker(0)))
        };
        let lowest = self.recovery.takeovers.iter().min_by_key(|by| by.as_worker);
        let reporter = match lowest {
            Some(by) => Some(by.rank),
            None => self.returns.keys().copied().find(is_first),
        };
        self.returns.get(&reporter?).copied()
    }

    fn finish(
        self,
        ranks: &BTreeMap<ProcessNumber, RankHistory>,
        points: &[CheckpointPoint],
    ) -> Recovery {
        let failure = self
            .reported_return(ranks)
            .filter(|_| self.recovery.detected_ns.is_some());
        let mut recovery = self.recovery;
        recovery.failed_ns = failure.map(|end| end.at_ns.saturating_sub(end.since_failure_ns));
        recovery.failure_to_resume_ns = failure.map(|end| end.since_failure_ns);
        recovery.stages = self.stages.into_values().collect();
        recovery.failed = self
            .failed
            .into_iter()
            .map(|rank| failed_rank(rank, ranks.get(&rank)))
            .collect();
        let killed = recovery
            .failed
            .iter()
            .filter_map(|failed| failed.killed_ns)
            .min();
        let killed_to_resume = recovery.resumed_ns.zip(killed);
        recovery.kill_to_resume_ns = killed_to_resume.map(|(to, from)| to.saturating_sub(from));
        recovery.repeated_ns = repeated(&recovery, points);
        recovery
    }
}

/// Returns the time from the restored checkpoint until the detection of the failure.
///
/// The last capture of the checkpoint counts, or the first if the last came after the detection.
fn repeated(recovery: &Recovery, points: &[CheckpointPoint]) -> Option<u64> {
    let (epoch, detected) = (recovery.epoch?, recovery.detected_ns?);
    let end = points.partition_point(|point| point.at_ns <= detected);
    let point = points[..end]
        .iter()
        .rev()
        .find(|point| point.epoch == epoch)?;
    let cut = [point.last_ns, point.at_ns];
    let cut = cut.into_iter().find(|at| *at <= detected)?;
    Some(detected - cut)
}

fn add_stage(
    stages: &mut BTreeMap<RecoveryStage, StageTime>,
    stage: RecoveryStage,
    rank: ProcessNumber,
    ns: u64,
) {
    let entry = stages.entry(stage).or_insert(StageTime {
        stage,
        max_ns: ns,
        slowest: rank,
        ranks: 0,
    });
    entry.ranks += 1;
    if ns > entry.max_ns {
        (entry.max_ns, entry.slowest) = (ns, rank);
    }
}

/// Returns the description of a failed rank.
///
/// A rank fails once and its file ends there, so that its last role and record are those of the
/// failure.
fn failed_rank(rank: ProcessNumber, history: Option<&RankHistory>) -> FailedRank {
    let role_of = |history: &RankHistory| history.role.or(history.worker.map(Role::Worker));
    FailedRank {
        rank,
        role: history.and_then(role_of),
        cause: history.and_then(|history| history.cause.clone()),
        last_sign_ns: history.and_then(|history| history.last_sign_ns),
        killed_ns: history.and_then(|history| history.killed_ns),
    }
}
