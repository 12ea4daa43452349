//! Files that effects have made, noted after them.
//!
//! A record is written before its effect, when the file under a new name and the backup of an old
//! one do not exist yet. The outcome follows the record as soon as they do. It names the inode, so
//! that undoing removes what the program has made, and nothing that others have put in its place,
//! and a backup that has been moved, removed or exchanged is noticed. A record without an outcome
//! is the last one of a process that died in the call: nothing was destroyed before the backup was
//! complete.
#![allow(unsafe_code)]

use super::log::{Id, Line};
use super::note::{Recorder, metadata_of};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

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

/// The calling thread.
fn thread() -> libc::pid_t {
    // SAFETY: gettid(2).
    unsafe { libc::gettid() }
}

impl Recorder {
    /// Notes what the latest record about making `made` has led to.
    pub(super) fn conclude(&mut self, made: &Path, outcome: Outcome) -> io::Result<()> {
        match self.log.as_ref().is_some_and(|log| log.makes(made)) {
            true => self.put(Line::Outcome(made.to_owned(), outcome)),
            false => Ok(()),
        }
    }

    /// A call of this thread is about to make this name; [`made`](Self::made) follows.
    pub(super) fn await_name(&mut self, path: &Path) {
        self.awaited.push((thread(), path.to_owned()));
    }

    /// The last call of this thread that was to make a name has returned.
    pub fn made(&mut self) -> io::Result<()> {
        let own = thread();
        let last = self.awaited.iter().rposition(|(thread, _)| *thread == own);
        let Some(last) = last else {
            return Ok(());
        };
        let (_, path): (_, PathBuf) = self.awaited.remove(last);
        let outcome = metadata_of(&path).map_or(Outcome::NOTHING, |it| Outcome::of(&it));
        self.conclude(&path, outcome)
    }

    /// Returns true if a call that is to make a name has not returned yet.
    pub fn awaits_name(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Notes that the program is about to remove a file made since the cut.
    pub(super) fn remove_new(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        // Another rank may have put its own in the place of that one.
        let made = self.log.as_ref().and_then(|log| log.outcome_of(path));
        match made.is_some_and(|made| made.is(metadata)) {
            true => self.conclude(path, Outcome::removed(metadata)),
            false => Ok(()),
        }
    }
}
