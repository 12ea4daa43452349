//! All ledgers of a node, for tools that list running jobs or leftovers.

use super::ledger::{LedgerError, Mapping, RankStage};
use crate::names::job_of_name;
use crate::process_state::lives;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use understudy_formats::private::{Directory, in_memory};
use understudy_numbers::ProcessNumber;

/// A rank of any job, as described by its ledger.
#[derive(Debug, Clone)]
pub struct Seat {
    pub path: PathBuf,
    /// Name of the job, as given by the launcher.
    pub job: String,
    pub rank: ProcessNumber,
    /// Contents of the ledger; `None` if it has another version, or is not ready.
    pub entry: Option<Entry>,
}

/// Contents of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Process ids; 0 where a process has not introduced itself.
    pub pid: u32,
    pub launcher: u32,
    pub relay: u32,
    pub stage: RankStage,
    /// True if the rank is an idle spare.
    pub is_idle: bool,
    /// True if the rank's process lives.
    pub lives: bool,
}

impl Seat {
    /// True if the rank, its relay or its launcher still exists.
    pub fn is_taken(&self) -> bool {
        let is_relay = |pid: u32| lives(pid) && name_of(pid) == "ckptd-relay";
        let by_entry = |entry: Entry| {
            entry.lives
                || is_relay(entry.relay)
                || (lives(entry.launcher) && has_started_ranks(entry.launcher))
        };
        // For a ledger that is being created, the launcher's process id in the job's name is used.
        self.entry.is_some_and(by_entry) || has_launcher(&self.job)
    }
}

/// Names of launchers, ckptd's own among them.
const LAUNCHERS: [&str; 6] = [
    "understudy",
    "ckptd",
    "prterun",
    "mpirun",
    "mpiexec",
    "prted",
];

/// True if a process is a launcher.
fn has_started_ranks(pid: u32) -> bool {
    LAUNCHERS.contains(&name_of(pid).as_str())
}

/// True if the launcher that has named a job lives on this node: `prterun-HOST-PID@N`.
pub fn has_launcher(job: &str) -> bool {
    let pid = job
        .rsplit_once('@')
        .and_then(|(launcher, _)| launcher.rsplit_once('-')?.1.parse().ok());
    pid.is_some_and(|pid| lives(pid) && has_started_ranks(pid))
}

/// Returns all ranks of this user that have a ledger on this node.
pub fn survey() -> Vec<Seat> {
    let Ok(Some(directory)) = Directory::open(&in_memory()) else {
        return Vec::new();
    };
    let seat = |name: OsString| {
        let (job, rank) = job_of_name(name.to_str()?)?;
        let (job, rank) = (job.to_owned(), ProcessNumber(rank.parse().ok()?));
        let path = directory.path().join(&name);
        let entry = match Mapping::open_ready(&path, false) {
            Ok((ledger, _)) => {
                let pid = ledger.rank_pid.load(SeqCst);
                Some(Entry {
                    pid,
                    launcher: ledger.launcher_pid.load(SeqCst),
                    relay: ledger.relay_pid.load(SeqCst),
                    stage: ledger.stage(),
                    is_idle: ledger.idle.load(SeqCst) != 0,
                    lives: pid != 0 && lives(pid),
                })
            }
            // The ledger belongs to another user, or was removed.
            Err(LedgerError::NotALedger | LedgerError::Io(_)) => return None,
            Err(_) => None,
        };
        Some(Seat {
            path,
            job,
            rank,
            entry,
        })
    };
    let mut seats: Vec<_> = directory.names().into_iter().filter_map(seat).collect();
    seats.sort_by(|a, b| (&a.job, a.rank).cmp(&(&b.job, b.rank)));
    seats
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_has_these_names() {
        assert!(!has_launcher("prterun-node-a-4294967295@1") && !has_launcher("nonsense"));
    }
}
