//! Files that effects have created, recorded after the effects.
//!
//! A record is written before its effect, when the new file or the backup does not exist yet. The
//! outcome is written when the file exists, and contains its identity. By the identity, the undo
//! distinguishes a file that the program has created from a file that another process has created
//! under the same name, and detects that a backup was moved, removed or exchanged. A record without
//! an outcome is the last record of a process that failed during the call. Such a call has
//! destroyed nothing: calls that destroy content are made after the outcome of their backup was
//! recorded.

use super::file_id::FileId;
use std::fs::Metadata;

/// File that an effect has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Outcome {
    /// Identity of the file; [`FileId::UNKNOWN`] if none was created.
    pub id: FileId,
    /// True if the program was about to remove the file.
    is_removed: bool,
}

impl Outcome {
    /// Outcome of a failed call.
    pub const NOTHING: Outcome = Outcome {
        id: FileId::UNKNOWN,
        is_removed: false,
    };

    /// Returns the outcome of a call that created a file.
    pub fn from_metadata(metadata: &Metadata) -> Outcome {
        Outcome {
            id: FileId::from_metadata(metadata),
            is_removed: false,
        }
    }

    /// Returns the outcome for a file that the program is about to remove.
    pub fn removed(metadata: &Metadata) -> Outcome {
        Outcome {
            is_removed: true,
            ..Outcome::from_metadata(metadata)
        }
    }

    /// True if `found` is the file that was created.
    pub fn is(&self, found: &Metadata) -> bool {
        self.id.is_of(found)
    }

    /// True if no file is expected at the name.
    pub fn is_nothing(&self) -> bool {
        self.is_removed || self.id == FileId::UNKNOWN
    }
}
