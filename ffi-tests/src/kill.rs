//! Who is killed, and when.

use crate::place::DISK;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use understudy_formats::events::{EventReader, Kind, ProcessNumber, file_name};

/// A moment in a job.
#[derive(Clone, Copy, Debug)]
pub enum Trigger {
    /// All ranks of the job were started; they are in MPI_Init or before.
    Launched,
    /// This rank has come through the real MPI_Init, but not yet through ours.
    Started { rank: u32 },
    /// So many lines were printed on standard output.
    Lines(usize),
    /// This rank has captured its state for this epoch.
    Capture { rank: u32, epoch: u64 },
    /// This rank has committed this epoch.
    Commit { rank: u32, epoch: u64 },
    /// The copies of all of so many workers are without what can be rebuilt.
    JustThinned { workers: u32 },
    /// The same, found out so many times, and an epoch has been committed since: what a dead
    /// process leaves is without it, too.
    Thinned { workers: u32, times: usize },
    /// So many workers do without copies of what can be rebuilt themselves.
    OwnThinned { workers: u32 },
    /// All of so many workers have decided how static data come back.
    Decided { workers: u32 },
    /// All of so many workers have an epoch on disk that is at least this one.
    OnDisk { workers: u32, epoch: u64 },
    /// This rank is back in the program after this recovery.
    Resume { rank: u32, recovery: u32 },
}

/// The death of a rank by SIGKILL.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Rank in the launcher's world.
    pub rank: u32,
    pub at: Trigger,
    /// … and how long after it.
    pub delay: Duration,
}

/// Returns the fault that kills a rank at the end of a commit (UNDERSTUDY_FAULT).
pub fn fault_at_commit(rank: u32, checkpoint: u64) -> String {
    format!("kill rank={rank} at=commit.end epoch={checkpoint}")
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
    /// Whether the moment has come.
    pub fn has_come(&self, stdout: &Path, events: &Path) -> bool {
        match *self {
            Trigger::Launched => true,
            Trigger::Started { rank } => {
                has_event(events, rank, |kind| matches!(kind, Kind::Start { .. }))
            }
            Trigger::Lines(count) => lines(stdout) >= count,
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
            Trigger::JustThinned { workers } => {
                let is_thin =
                    |rank| has_event(events, rank, |kind| matches!(kind, Kind::Thinned { .. }));
                (0..workers).all(is_thin)
            }
            Trigger::Thinned { workers, times } => {
                let is_thin = |rank: &u32| is_committed_after(events, *rank, times);
                // Somebody else may play a part by now.
                let files = std::fs::read_dir(events).map_or(0, Iterator::count) as u32;
                (0..files).filter(is_thin).count() as u32 >= workers
            }
            Trigger::OwnThinned { workers } => {
                let is_thin =
                    |rank| has_event(events, rank, |kind| matches!(kind, Kind::OwnThinned { .. }));
                (0..workers).all(is_thin)
            }
            Trigger::Decided { workers } => {
                let has_decided =
                    |rank| has_event(events, rank, |kind| matches!(kind, Kind::StaticData { .. }));
                (0..workers).all(has_decided)
            }
            Trigger::OnDisk { workers, epoch } => stdout.parent().is_some_and(|root| {
                epochs_on_disk(&root.join(DISK), workers)
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

/// The epochs of which a directory has files of all of so many workers, the oldest first.
pub fn epochs_on_disk(directory: &Path, workers: u32) -> Vec<u64> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for name in names.filter(|name| name.ends_with(".epoch")) {
        if let Some((epoch, _worker)) = name.rsplit_once("-w") {
            *counts.entry(epoch.to_owned()).or_default() += 1;
        }
    }
    let whole = counts.into_iter().filter(|(_, count)| *count == workers);
    whole
        .filter_map(|(name, _)| name.rsplit_once('-')?.1.parse().ok())
        .collect()
}

/// Number of whole lines of a file.
pub fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| {
        bytes.iter().filter(|&&byte| byte == b'\n').count()
    })
}

fn has_event(events: &Path, rank: u32, test: impl Fn(&Kind) -> bool) -> bool {
    count_events(events, rank, test) > 0
}

/// Whether this rank has committed an epoch after it had thinned a copy so many times.
fn is_committed_after(events: &Path, rank: u32, times: usize) -> bool {
    let Ok(reader) = EventReader::open(&events.join(file_name(ProcessNumber(rank)))) else {
        return false;
    };
    let mut kinds = reader.flatten().map(|record| record.kind);
    let thinned = kinds
        .by_ref()
        .filter(|kind| matches!(kind, Kind::Thinned { .. }));
    thinned.take(times).count() == times && kinds.any(|kind| matches!(kind, Kind::Commit { .. }))
}

fn count_events(events: &Path, rank: u32, test: impl Fn(&Kind) -> bool) -> usize {
    let Ok(reader) = EventReader::open(&events.join(file_name(ProcessNumber(rank)))) else {
        return 0;
    };
    reader.flatten().filter(|record| test(&record.kind)).count()
}
