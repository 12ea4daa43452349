//! All ledgers of a node, for tools that list running jobs or leftovers.

use super::ledger::{LedgerError, Mapping, RankStage};
use crate::names::job_of_name;
use crate::process_state::lives;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use understudy_formats::private_directories::{PrivateDirectory, in_memory};
use understudy_numbers::ProcessNumber;

/// A rank of any job, as described by its ledger.
#[derive(Debug, Clone)]
pub struct LedgerRank {
    pub path: PathBuf,
    /// Name of the job, as given by the launcher.
    pub job: String,
    pub rank: ProcessNumber,
    /// Contents of the ledger.
    ///
    /// `None` if the ledger has another version, is not ready, or was removed during the survey.
    pub entry: Option<LedgerContents>,
}

/// Contents of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct LedgerContents {
    /// Process id of the rank; 0 until the rank has recorded it.
    pub pid: u32,
    /// Process id of the rank's parent (guardian or launcher); 0 until recorded.
    pub launcher: u32,
    /// Process id of the relay.
    pub relay: u32,
    pub stage: RankStage,
    /// True if the rank is an idle spare.
    pub is_idle: bool,
    /// True if the rank's process lives.
    pub lives: bool,
}

impl LedgerRank {
    /// True if the rank, its relay or its launcher still exists.
    pub fn is_in_use(&self) -> bool {
        let is_relay = |pid: u32| lives(pid) && command_name(pid) == "ckptd-relay";
        let has_process = |entry: LedgerContents| {
            entry.lives
                || is_relay(entry.relay)
                || (lives(entry.launcher) && is_launcher(entry.launcher))
        };
        // A ledger that is not ready contains no process ids; the job's name contains the
        // launcher's.
        self.entry.is_some_and(has_process) || has_launcher(&self.job)
    }
}

/// Command names of launchers and of their processes that start ranks.
const LAUNCHERS: [&str; 7] = [
    "understudy",
    "ckptd",
    "prterun",
    "mpirun",
    "mpiexec",
    "hydra_pmi_proxy",
    "prted",
];

/// True if a process has the command name of a launcher.
///
/// Process ids are reused, so that a living process may be unrelated.
fn is_launcher(pid: u32) -> bool {
    LAUNCHERS.contains(&command_name(pid).as_str())
}

/// True if the launcher that has named a job lives on this node.
///
/// Names such as `prterun-HOST-PID@N` contain the launcher's process id; names of Slurm's steps and
/// of jobs of Open MPI 4 contain none.
pub fn has_launcher(job: &str) -> bool {
    let pid = job
        .rsplit_once('@')
        .and_then(|(launcher, _)| launcher.rsplit_once('-')?.1.parse().ok());
    pid.is_some_and(|pid| lives(pid) && is_launcher(pid))
}

/// Returns all ranks of this user that have a ledger on this node.
pub fn survey() -> Vec<LedgerRank> {
    let Ok(Some(directory)) = PrivateDirectory::open(&in_memory()) else {
        return Vec::new();
    };
    let read_rank = |name: OsString| {
        let (job, rank) = job_of_name(name.to_str()?)?;
        let (job, rank) = (job.to_owned(), ProcessNumber(rank.parse().ok()?));
        let path = directory.path().join(&name);
        let entry = match Mapping::open_ready(&path, false) {
            Ok((ledger, _)) => {
                let pid = ledger.rank_pid.load(SeqCst);
                Some(LedgerContents {
                    pid,
                    launcher: ledger.launcher_pid.load(SeqCst),
                    relay: ledger.relay_pid.load(SeqCst),
                    stage: ledger.stage(),
                    is_idle: ledger.idle.load(SeqCst) != 0,
                    lives: pid != 0 && lives(pid),
                })
            }
            // The file is no ledger of this user, or cannot be read.
            Err(LedgerError::NotALedger | LedgerError::Io(_)) => return None,
            Err(_) => None,
        };
        Some(LedgerRank {
            path,
            job,
            rank,
            entry,
        })
    };
    let mut ranks: Vec<_> = directory
        .names()
        .into_iter()
        .filter_map(read_rank)
        .collect();
    ranks.sort_by(|a, b| (&a.job, a.rank).cmp(&(&b.job, b.rank)));
    ranks
}

fn command_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A shell runs under the name of each launcher.
    ///
    /// The command name of a process is the name of its file (proc(5)).
    #[test]
    fn a_living_launcher_is_recognised() {
        let directory = std::env::temp_dir().join(format!("launchers-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        for name in [
            "understudy",
            "prterun",
            "mpiexec",
            "hydra_pmi_proxy",
            "prted",
        ] {
            let file = directory.join(name);
            std::os::unix::fs::symlink("/bin/sh", &file).unwrap();
            let mut shell = Command::new(&file);
            shell.args(["-c", "read line"]).stdin(Stdio::piped());
            let mut shell = shell.spawn().unwrap();
            let job = format!("mpiexec-node-a-{}@1", shell.id());
            let had_launcher = has_launcher(&job);
            drop(shell.stdin.take());
            shell.wait().unwrap();
            assert!(had_launcher, "{name}");
            assert!(!has_launcher(&job), "{name}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn names_without_a_living_process_have_no_launcher() {
        assert!(!has_launcher("prterun-node-a-4294967295@1") && !has_launcher("nonsense"));
    }
}
