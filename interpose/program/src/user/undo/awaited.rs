//! Names that running calls are about to create.
#![allow(unsafe_code)]

use super::file_call::metadata_of;
use super::outcome::Outcome;
use super::recorder::Recorder;
use super::undo_log::LogLine;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

impl Recorder {
    /// Sets the thread of another process whose calls are recorded from now on.
    pub(super) fn set_thread(&mut self, thread: libc::pid_t) {
        self.thread = Some(thread);
    }

    /// Returns the thread whose calls are recorded.
    fn thread(&self) -> libc::pid_t {
        // SAFETY: gettid(2) has no arguments and accesses no memory.
        self.thread.unwrap_or_else(|| unsafe { libc::gettid() })
    }

    /// Discards the names that calls of an ended thread would have created.
    pub(super) fn forget_name_of(&mut self, thread: libc::pid_t) {
        self.awaited.retain(|(other, _)| *other != thread);
    }

    /// True while a call of this thread that creates a name has not returned.
    pub(super) fn awaits_name_of(&self, thread: libc::pid_t) -> bool {
        self.awaited.iter().any(|(other, _)| *other == thread)
    }

    /// Records the outcome of the latest record that creates `name`.
    pub(super) fn record_outcome(&mut self, name: &Path, outcome: Outcome) -> io::Result<()> {
        match self.log.as_ref().is_some_and(|log| log.creates_name(name)) {
            true => self.put(LogLine::Outcome(name.to_owned(), outcome)),
            false => Ok(()),
        }
    }

    /// Records that a call of this thread is about to create a name.
    ///
    /// [`name_created`](Self::name_created) must be called after the call has returned.
    pub(super) fn await_name(&mut self, path: &Path) {
        let thread = self.thread();
        self.awaited.push((thread, path.to_owned()));
    }

    /// Records that the last call of this thread that creates a name has returned.
    pub fn name_created(&mut self) -> io::Result<()> {
        let own = self.thread();
        let last = self.awaited.iter().rposition(|(thread, _)| *thread == own);
        let Some(last) = last else {
            return Ok(());
        };
        let (_, path): (_, PathBuf) = self.awaited.remove(last);
        let outcome = metadata_of(&path).map_or(Outcome::NOTHING, |metadata| {
            Outcome::from_metadata(&metadata)
        });
        self.record_outcome(&path, outcome)
    }

    /// True if a call that creates a name has not returned yet.
    pub fn awaits_name(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Records that the program is about to remove a file created since the cut.
    pub(super) fn remove_new(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        // Another rank may have replaced the file by another file.
        let created = self.log.as_ref().and_then(|log| log.outcome_of(path));
        match created.is_some_and(|created| created.is(metadata)) {
            true => self.record_outcome(path, Outcome::removed(metadata)),
            false => Ok(()),
        }
    }
}
