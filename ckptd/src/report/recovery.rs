//! What happened in each recovery.

use super::{Event, Parts};
use crate::events::{Epoch, Kind, ProcessNumber, RecoveryStage, Role, Spare, Worker};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A process that failed.
#[derive(Debug, Serialize)]
pub struct FailedRank {
    pub rank: ProcessNumber,
    /// Its part when it failed, if its file tells.
    pub role: Option<Role>,
    /// Of what it died, as the others found out.
    pub cause: Option<String>,
    /// Its last record.
    pub last_sign_ns: Option<u64>,
    /// When it killed itself on purpose, if it did.
    pub killed_ns: Option<u64>,
}

/// A spare that took over.
#[derive(Debug, Serialize)]
pub struct TakeoverBy {
    pub rank: ProcessNumber,
    pub spare: Spare,
    pub as_worker: Worker,
}

/// A stage's duration over all ranks.
#[derive(Debug, Serialize)]
pub struct StageTime {
    pub stage: RecoveryStage,
    pub max_ns: u64,
    /// The rank that took longest.
    pub slowest: ProcessNumber,
    pub ranks: usize,
}

/// One recovery; times are on the job's clock.
#[derive(Debug, Serialize)]
pub struct Recovery {
    pub number: u32,
    pub failed: Vec<FailedRank>,
    /// The first detection and what it came through.
    pub detected_ns: Option<u64>,
    pub detected_by: Option<ProcessNumber>,
    pub error_class: Option<String>,
    pub takeovers: Vec<TakeoverBy>,
    /// The epoch the job went on from.
    pub epoch: Option<Epoch>,
    pub stages: Vec<StageTime>,
    pub resumed: Vec<ProcessNumber>,
    /// When the last rank was back in the program.
    pub resumed_ns: Option<u64>,
    pub detect_to_resume_ns: Option<u64>,
    pub kill_to_resume_ns: Option<u64>,
}

pub(super) fn recoveries(events: &[Event]) -> Vec<Recovery> {
    let numbers: BTreeSet<u32> = events
        .iter()
        .filter_map(|event| number(&event.kind))
        .collect();
    numbers
        .into_iter()
        .map(|number| recovery(number, events))
        .collect()
}

fn number(kind: &Kind) -> Option<u32> {
    match *kind {
        Kind::FailureDetected { recovery, .. }
        | Kind::Death { recovery, .. }
        | Kind::Stage { recovery, .. }
        | Kind::Takeover { recovery, .. }
        | Kind::Resume { recovery, .. } => Some(recovery),
        _ => None,
    }
}

fn recovery(wanted: u32, events: &[Event]) -> Recovery {
    let mut it = Recovery {
        number: wanted,
        failed: Vec::new(),
        detected_ns: None,
        detected_by: None,
        error_class: None,
        takeovers: Vec::new(),
        epoch: None,
        stages: Vec::new(),
        resumed: Vec::new(),
        resumed_ns: None,
        detect_to_resume_ns: None,
        kill_to_resume_ns: None,
    };
    let mut stages: BTreeMap<RecoveryStage, StageTime> = BTreeMap::new();
    let mut failed: BTreeSet<ProcessNumber> = BTreeSet::new();
    for event in events
        .iter()
        .filter(|event| number(&event.kind) == Some(wanted))
    {
        match &event.kind {
            Kind::FailureDetected {
                failed: ranks, by, ..
            } => {
                failed.extend(ranks);
                if it.detected_ns.is_none() {
                    it.detected_ns = Some(event.at_ns);
                    it.detected_by = Some(event.rank);
                    it.error_class = Some(by.to_string());
                }
            }
            Kind::Death { rank, .. } => drop(failed.insert(*rank)),
            Kind::Stage { stage, ns, .. } => add_stage(&mut stages, *stage, event.rank, *ns),
            Kind::Takeover {
                from, as_worker, ..
            } => {
                it.takeovers.push(TakeoverBy {
                    rank: event.rank,
                    spare: *from,
                    as_worker: *as_worker,
                });
            }
            Kind::Resume { epoch, .. } => {
                it.epoch = it.epoch.max(Some(*epoch));
                it.resumed.push(event.rank);
                it.resumed_ns = Some(event.at_ns);
            }
            _ => {}
        }
    }
    it.stages = stages.into_values().collect();
    it.failed = failed
        .into_iter()
        .map(|rank| failed_rank(rank, events))
        .collect();
    it.detect_to_resume_ns = it
        .resumed_ns
        .zip(it.detected_ns)
        .map(|(to, from)| to.saturating_sub(from));
    let killed = it.failed.iter().filter_map(|failed| failed.killed_ns).min();
    it.kill_to_resume_ns = it
        .resumed_ns
        .zip(killed)
        .map(|(to, from)| to.saturating_sub(from));
    it
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

/// A rank fails once and its file ends there, so its last part and record are those of the failure.
fn failed_rank(rank: ProcessNumber, events: &[Event]) -> FailedRank {
    let mut parts = Parts::default();
    let own = events.iter().filter(|event| event.rank == rank);
    own.clone().for_each(|event| parts.follow(event));
    let deaths = events.iter().filter_map(|event| match &event.kind {
        Kind::Death {
            rank: dead,
            worker,
            cause,
            ..
        } if *dead == rank => Some((Some(*worker), cause)),
        _ => None,
    });
    let (worker, causes): (Vec<_>, Vec<_>) = deaths.unzip();
    let played = worker.first().copied().flatten().map(Role::Worker);
    // Only those of its node may have seen of what it died.
    let seen = causes.iter().find(|cause| cause.as_str() != "unknown");
    FailedRank {
        rank,
        role: parts.role(rank).or(played),
        cause: seen.map(|cause| (*cause).clone()),
        last_sign_ns: own.clone().map(|event| event.at_ns).max(),
        killed_ns: own
            .filter(|event| matches!(event.kind, Kind::Kill { .. }))
            .map(|event| event.at_ns)
            .max(),
    }
}
