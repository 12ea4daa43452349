//! Access of a survivor to the ledger of another rank on the same node.

use super::ledger::{LedgerError, Mapping, StreamState};
use super::note::NOTE_WORDS;
use super::position::Position;
use super::sys;
use crate::stream::Stream;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A ledger that is mapped read-only.
pub struct LedgerObserver {
    ledger: Mapping,
    file: File,
    path: PathBuf,
}

impl LedgerObserver {
    /// Maps the ledger at `path`, which must exist and be ready.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let (ledger, file) = Mapping::open_ready(path, false)?;
        Ok(Self {
            ledger,
            file,
            path: path.to_owned(),
        })
    }

    /// Waits until every byte of the stream is forwarded, and returns its final high-water mark.
    ///
    /// Returns the beginning of the output if the relay has no such stream.
    pub fn final_high_water(
        &self,
        stream: Stream,
        timeout: Duration,
    ) -> Result<Position, LedgerError> {
        let cell = self.ledger.cell(stream);
        let begin = Instant::now();
        let mut poll_interval = Duration::from_micros(20);
        loop {
            // The relay is checked before the stream's state, because the relay may end the stream
            // and exit between the two checks.
            let was_alive = self.is_relay_alive();
            if cell.state() != StreamState::Open {
                return Ok(cell.high_water.load());
            }
            if !was_alive {
                return Err(LedgerError::RelayDied);
            }
            if begin.elapsed() >= timeout {
                return Err(LedgerError::Timeout(timeout));
            }
            std::thread::sleep(poll_interval);
            poll_interval = (poll_interval * 2).min(Duration::from_millis(1));
        }
    }

    /// Returns the beginning of the line that contains the current high-water mark.
    pub fn high_water_line(&self, stream: Stream) -> Position {
        Position {
            column: 0,
            ..self.ledger.cell(stream).high_water.load()
        }
    }

    /// Returns the rank's record of a fatal signal, for
    /// [`Note::from_words`](super::Note::from_words).
    pub fn note(&self) -> [u64; NOTE_WORDS] {
        self.ledger.note.words()
    }

    /// Returns 1 + the last checkpoint after which threads have changed files.
    ///
    /// Only threads without the MPI lock count. Zero if there was no such change. The undo log does
    /// not contain these changes.
    pub fn effects(&self) -> u64 {
        self.ledger.effects.load(SeqCst)
    }

    /// Returns the status with which the rank has exited without `MPI_Finalize`.
    pub fn early_exit_status(&self) -> Option<u32> {
        self.ledger.early_exit_status()
    }

    /// True if both streams have ended.
    pub fn is_closed(&self) -> bool {
        self.ledger.closed.load(SeqCst) != 0
    }

    /// Returns `errno` of the first failed write to the real descriptor.
    pub fn write_error(&self, stream: Stream) -> Option<i32> {
        Some(self.ledger.cell(stream).errno.load(SeqCst)).filter(|&errno| errno != 0)
    }

    /// True if the relay lives.
    ///
    /// The relay has a lock on its ledger, which the kernel releases when the relay exits.
    pub fn is_relay_alive(&self) -> bool {
        match sys::try_lock(&self.file, false) {
            Ok(true) => {
                sys::unlock(&self.file);
                false
            }
            Ok(false) => true,
            // A file system without flock(2): the relay counts as alive, and the timeout of the
            // caller limits the wait.
            Err(_) => true,
        }
    }

    /// Removes the ledger of a rank that can no longer request its removal.
    pub fn remove(self) -> std::io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}
