//! Files that effects have made, noted after them.
//!
//! A record is written before its effect, when the file under a new name and the backup of an old
//! one do not exist yet. The outcome follows the record as soon as they do. It names the inode, so
//! that undoing removes what the program has made, and nothing that others have put in its place,
//! and a backup that has been moved, removed or exchanged is noticed. A record without an outcome
//! is the last one of a process that died in the call: nothing was destroyed before the backup was
//! complete.

use super::file_id::Id;
use std::fs::Metadata;

/// A file that an effect has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Outcome {
    /// [`Id::UNKNOWN`] if nothing was made.
    pub id: Id,
    /// The program was about to remove it.
    is_removed: bool,
}

impl Outcome {
    /// The call has failed.
    pub const NOTHING: Outcome = Outcome {
        id: Id::UNKNOWN,
        is_removed: false,
    };

    /// A file has been made.
    pub fn of(metadata: &Metadata) -> Outcome {
        Outcome {
            id: Id::of(metadata),
            is_removed: false,
        }
    }

    /// The program is about to remove the file.
    pub fn removed(metadata: &Metadata) -> Outcome {
        Outcome {
            is_removed: true,
            ..Outcome::of(metadata)
        }
    }

    /// Returns true if `found` is the file that was made.
    pub fn is(&self, found: &Metadata) -> bool {
        self.id.is_of(found)
    }

    /// Returns true if nothing is expected under the name.
    pub fn is_nothing(&self) -> bool {
        self.is_removed || self.id == Id::UNKNOWN
    }
}
