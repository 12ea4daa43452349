//! Failures to inject: ranks to kill, and the moments.

use crate::paths::DISK;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use understudy_formats::events::{EventReader, Kind, ProcessNumber, file_name};

/// A moment in a job.
#[derive(Clone, Copy, Debug)]
pub enum Trigger {
    /// All ranks have been started; usually, no rank has returned from MPI_Init yet.
    Launched,
    /// This rank has returned from the MPI library's MPI_Init.
    ///
    /// Usually, the rank has not returned from understudy's MPI_Init yet.
    Started { rank: u32 },
    /// Standard output has this number of lines or more.
    Lines(usize),
    /// Standard output has this number of lines or more, after this rank has resumed.
    ///
    /// The rank has resumed after this recovery or a later one.
    LinesAfterResume {
        lines: usize,
        rank: u32,
        recovery: u32,
    },
    /// This rank has captured its state for this checkpoint or a later one.
    Capture { rank: u32, epoch: u64 },
    /// This rank has committed this checkpoint or a later one.
    Commit { rank: u32, epoch: u64 },
    /// Each rank below `workers` has reduced a replica that it stores for another worker.
    JustReduced { workers: u32 },
    /// `workers` ranks have reduced stored replicas `times` times, then committed a checkpoint.
    ///
    /// The ranks may include replacements. The persistent replica store of a failed process is
    /// reduced as well.
    Reduced { workers: u32, times: usize },
    /// Each rank below `workers` has reduced the replica of its own memory.
    OwnReduced { workers: u32 },
    /// Each rank below `workers` has decided how static data are restored.
    Decided { workers: u32 },
    /// All `workers` workers have this checkpoint or a later one on disk.
    OnDisk { workers: u32, epoch: u64 },
    /// This rank has returned to the program after this recovery or a later one.
    Resume { rank: u32, recovery: u32 },
}

/// The failure of a rank by SIGKILL.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Rank in the launcher's world.
    pub rank: u32,
    pub at: Trigger,
    /// Delay between the moment `at` and the signal.
    pub delay: Duration,
}

/// Returns the fault that kills a rank at the end of a commit (UNDERSTUDY_FAULT).
pub fn fault_at_commit(rank: u32, checkpoint: u64) -> String {
    format!("kill rank={rank} at=commit.end epoch={checkpoint}")
}

/// Returns the number of ranks that faults kill at points of later checkpoints.
///
/// `faults` is a value of UNDERSTUDY_FAULT.
pub fn count_kills_in_checkpoints(faults: &str) -> usize {
    let is_counted = |fault: &&str| fault.trim().starts_with("kill ") && fault.contains("epoch=");
    faults.split(';').filter(is_counted).count()
}

/// Returns the number of ranks that faults have killed, according to the event files.
pub fn count_killed(events: &Path) -> usize {
    let ranks = std::fs::read_dir(events).map_or(0, Iterator::count) as u32;
    let kills = |rank| count_events(events, rank, |kind| matches!(kind, Kind::Kill { .. }));
    (0..ranks).map(kills).sum()
}

impl Kill {
    pub fn at(rank: u32, at: Trigger) -> Kill {
        Kill {
            rank,
            at,
            delay: Duration::ZERO,
        }
    }

    pub fn after(self, delay: Duration) -> Kill {
        Kill { delay, ..self }
    }
}

impl Trigger {
    /// True if output, events or files show that the moment has been reached.
    pub fn is_reached(&self, stdout: &Path, events: &Path) -> bool {
        match *self {
            Trigger::Launched => true,
            Trigger::Started { rank } => {
                has_event(events, rank, |kind| matches!(kind, Kind::Start { .. }))
            }
            Trigger::Lines(count) => count_lines(stdout) >= count,
            Trigger::LinesAfterResume {
                lines,
                rank,
                recovery,
            } => {
                count_lines(stdout) >= lines
                    && Trigger::Resume { rank, recovery }.is_reached(stdout, events)
            }
            Trigger::Capture { rank, epoch } => has_event(
                events,
                rank,
                |kind| matches!(kind, Kind::Capture { epoch: at, .. } if at.0 >= epoch),
            ),
            Trigger::Commit { rank, epoch } => has_event(
                events,
                rank,
                |kind| matches!(kind, Kind::Commit { epoch: at, .. } if at.0 >= epoch),
            ),
            Trigger::JustReduced { workers } => {
                let is_reduced = |rank| {
                    has_event(events, rank, |kind| {
                        matches!(kind, Kind::ReplicaReduced { .. })
                    })
                };
                (0..workers).all(is_reduced)
            }
            Trigger::Reduced { workers, times } => {
                let is_reduced = |rank: &u32| is_committed_after(events, *rank, times);
                // A replacement may run as a worker by now, so all event files are read.
                let files = std::fs::read_dir(events).map_or(0, Iterator::count) as u32;
                (0..files).filter(is_reduced).count() as u32 >= workers
            }
            Trigger::OwnReduced { workers } => {
                let is_reduced = |rank| {
                    has_event(events, rank, |kind| {
                        matches!(kind, Kind::OwnReplicaReduced { .. })
                    })
                };
                (0..workers).all(is_reduced)
            }
            Trigger::Decided { workers } => {
                let has_decided =
                    |rank| has_event(events, rank, |kind| matches!(kind, Kind::StaticData { .. }));
                (0..workers).all(has_decided)
            }
            Trigger::OnDisk { workers, epoch } => stdout.parent().is_some_and(|root| {
                checkpoints_on_disk(&root.join(DISK), workers)
                    .last()
                    .is_some_and(|&last| last >= epoch)
            }),
            Trigger::Resume { rank, recovery } => has_event(
                events,
                rank,
                |kind| matches!(kind, Kind::Resume { recovery: at, .. } if *at >= recovery),
            ),
        }
    }
}

/// Returns the checkpoints that are complete in a directory, oldest first.
///
/// A checkpoint is complete if the directory has a file of each of the `workers`.
pub fn checkpoints_on_disk(directory: &Path, workers: u32) -> Vec<u64> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for name in names.filter(|name| name.ends_with(".epoch")) {
        if let Some((epoch, _worker)) = name.rsplit_once("-w") {
            *counts.entry(epoch.to_owned()).or_default() += 1;
        }
    }
    let complete = counts.into_iter().filter(|(_, count)| *count == workers);
    complete
        .filter_map(|(name, _)| name.rsplit_once('-')?.1.parse().ok())
        .collect()
}

/// Number of complete lines of a file.
pub fn count_lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| {
        bytes.iter().filter(|&&byte| byte == b'\n').count()
    })
}

fn has_event(events: &Path, rank: u32, test: impl Fn(&Kind) -> bool) -> bool {
    count_events(events, rank, test) > 0
}

/// True if this rank has committed a checkpoint after reducing stored replicas `times` times.
fn is_committed_after(events: &Path, rank: u32, times: usize) -> bool {
    let Ok(reader) = EventReader::open(&events.join(file_name(ProcessNumber(rank)))) else {
        return false;
    };
    let mut kinds = reader.flatten().map(|record| record.kind);
    let reductions = kinds
        .by_ref()
        .filter(|kind| matches!(kind, Kind::ReplicaReduced { .. }));
    reductions.take(times).count() == times && kinds.any(|kind| matches!(kind, Kind::Commit { .. }))
}

fn count_events(events: &Path, rank: u32, test: impl Fn(&Kind) -> bool) -> usize {
    let Ok(reader) = EventReader::open(&events.join(file_name(ProcessNumber(rank)))) else {
        return 0;
    };
    reader.flatten().filter(|record| test(&record.kind)).count()
}
