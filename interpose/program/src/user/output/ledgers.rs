//! Ledgers of the output relays of this node.

use std::path::PathBuf;
use understudy_numbers::ProcessNumber;
use understudy_relay::Position;

/// Path of this rank's ledger, and what the relay of a failed rank has forwarded.
pub struct Ledgers {
    pub own: Option<PathBuf>,
    /// Positions in the two streams, for the replacement of the failed rank.
    pub inherited: [Position; 2],
}

impl Ledgers {
    /// State at the start of the process.
    pub const START: Ledgers = Ledgers {
        own: None,
        inherited: [Position::START; 2],
    };

    /// Returns the path of the ledger of a process.
    pub fn path_of(&self, process: ProcessNumber) -> Option<PathBuf> {
        let own = self.own.as_ref()?;
        let name = own.file_name()?.to_str()?.rsplit_once('-')?.0;
        Some(own.with_file_name(format!("{name}-{process}")))
    }
}
