//! The ranks of a job on this node, as their ledgers and their processes show them.

use super::ledger::{Mapping, RankStage};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A rank of this node, as its ledger and its process show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) number: u32,
    pub(super) pid: u32,
    pub(super) stage: RankStage,
    pub(super) lives: bool,
    /// It is a spare without a part.
    pub(super) is_idle: bool,
    /// It has ended without `MPI_Finalize`, by itself.
    pub(super) has_left: bool,
}

/// The job's ranks with a ledger on this node.
pub(super) fn ranks(path: &Path) -> Vec<Rank> {
    let job = path
        .file_name()
        .and_then(|name| name.to_str()?.rsplit_once('-'))
        .map(|(job, _)| job);
    let (Some(directory), Some(job)) = (path.parent(), job) else {
        return Vec::new();
    };
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix(job)?.strip_prefix('-')?.parse().ok();
    names
        .filter_map(|entry| {
            let number = number(entry.file_name().to_str()?)?;
            let (ledger, _) = Mapping::open_ready(&entry.path(), false).ok()?;
            let pid = ledger.rank_pid.load(SeqCst);
            // One that has not introduced itself lives as long as somebody can write to its relay.
            let lives = match pid {
                0 => ledger.closed.load(SeqCst) == 0,
                pid => lives(pid),
            };
            Some(Rank {
                number,
                pid,
                stage: ledger.stage(),
                lives,
                is_idle: ledger.idle.load(SeqCst) != 0,
                has_left: ledger.left().is_some(),
            })
        })
        .collect()
}

/// Removes the job's ledgers on this node if none of its ranks lives here any more. The one relay that does gets the
/// ranks as they were.
pub(super) fn clean_up(path: &Path) -> Option<Vec<Rank>> {
    let ranks = ranks(path);
    let (job, _) = path.to_str()?.rsplit_once('-')?;
    let first = ranks.iter().map(|rank| rank.number).min()?;
    if ranks.iter().any(|rank| rank.lives) {
        return None;
    }
    let remove = |number: u32| std::fs::remove_file(format!("{job}-{number}")).is_ok();
    // Several may get here at once; a file can be removed once.
    let is_first = remove(first);
    for rank in ranks.iter().filter(|rank| rank.number != first) {
        remove(rank.number);
    }
    is_first.then_some(ranks)
}

/// Removes the ledger at `path`, whose rank has died and whose part another one has taken: what this rank had not done
/// yet, it need not do any more.
pub fn retire(path: &Path) {
    if let Ok((ledger, _)) = Mapping::open_ready(path, true) {
        ledger.stage.store(RankStage::Running as u32, SeqCst);
    }
    let _ = std::fs::remove_file(path);
}

/// Waits until a process has ended, whose descriptors are closed already: that comes a little earlier. Of relays that end
/// together, the one whose rank was the last then sees that nobody lives.
pub(super) fn await_end(pid: u32) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let begin = Instant::now();
    while lives(pid) && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is there and no zombie (proc(5), the state in `/proc/PID/stat`).
pub fn lives(pid: u32) -> bool {
    let state = |stat: &str| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !matches!(state(&stat), None | Some('Z' | 'X')))
}
