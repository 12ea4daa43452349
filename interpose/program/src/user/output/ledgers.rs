//! Paths of the ledgers of this node's output relays.
//!
//! A ledger is the shared file in which a relay counts the output of its rank (`understudy_relay`).

use crate::user::job_files::job_files;
use std::path::{Path, PathBuf};
use understudy_numbers::ProcessNumber;
use understudy_relay::Position;

/// Path of this rank's ledger, and the positions from which output is new.
pub struct Ledgers {
    /// Path of this rank's ledger; `None` without a relay.
    pub own: Option<PathBuf>,
    /// Positions in the two streams up to which output was forwarded before this process started.
    ///
    /// A replacement has the positions that the relay of the failed rank has reached, a restarted
    /// job those of the checkpoint.
    pub inherited: [Position; 2],
}

impl Ledgers {
    /// State at the start of the process.
    pub const START: Ledgers = Ledgers {
        own: None,
        inherited: [Position::START; 2],
    };

    /// Returns the directory of the ledgers, and the part of their names before the number.
    ///
    /// The names of ledgers of a job differ only in the process number at the end.
    fn directory_and_prefix(&self) -> Option<(&Path, String)> {
        let own = self.own.as_ref()?;
        let prefix = own.file_name()?.to_str()?.rsplit_once('-')?.0;
        Some((own.parent()?, format!("{prefix}-")))
    }

    /// Returns the path of the ledger of a process on this node.
    pub fn path_of(&self, process: ProcessNumber) -> Option<PathBuf> {
        let (directory, prefix) = self.directory_and_prefix()?;
        Some(directory.join(format!("{prefix}{process}")))
    }

    /// Lists the ledgers on this node of the job's first `count` processes.
    pub fn of_node(&self, count: u32) -> Vec<PathBuf> {
        let find = || {
            let (directory, prefix) = self.directory_and_prefix()?;
            job_files(directory, &prefix, count, &[""]).ok()
        };
        find().unwrap_or_default()
    }
}
