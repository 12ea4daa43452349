//! Ledgers of the output relays of this node.

use std::path::PathBuf;
use understudy_numbers::ProcessNumber;
use understudy_relay::Position;

/// Path of this rank's ledger, and positions reached by a failed rank's relay.
pub struct Ledgers {
    pub own: Option<PathBuf>,
    /// Positions in the two streams up to which the failed rank's output was forwarded.
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
