//! A survivor's look at another rank's ledger on the same node.

use super::ledger::{LedgerError, Mapping, StreamState};
use super::note::NOTE_WORDS;
use super::position::Position;
use super::sys;
use crate::stream::Stream;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A ledger mapped read-only.
pub struct LedgerObserver {
    ledger: Mapping,
    file: File,
    path: PathBuf,
}

impl LedgerObserver {
    /// Maps the ledger at `path`; it must exist and be ready.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let (ledger, file) = Mapping::open_ready(path, false)?;
        Ok(Self {
            ledger,
            file,
            path: path.to_owned(),
        })
    }

    /// Waits until the stream has ended and every byte of it is forwarded, and returns its
    /// high-water mark, which then is final. A stream the relay does not have has its beginning.
    pub fn final_high_water(
        &self,
        stream: Stream,
        timeout: Duration,
    ) -> Result<Position, LedgerError> {
        let cell = self.ledger.cell(stream);
        let begin = Instant::now();
        let mut poll_interval = Duration::from_micros(20);
        loop {
            let alive = self.relay_alive();
            if cell.state() != StreamState::Open {
                return Ok(cell.high_water.load());
            }
            if !alive {
                return Err(LedgerError::RelayGone);
            }
            if begin.elapsed() >= timeout {
                return Err(LedgerError::Timeout(timeout));
            }
            std::thread::sleep(poll_interval);
            poll_interval = (poll_interval * 2).min(Duration::from_millis(1));
        }
    }

    /// The beginning of the line that the high-water mark of this moment lies in, final or not.
    pub fn high_water_line(&self, stream: Stream) -> Position {
        Position {
            column: 0,
            ..self.ledger.cell(stream).high_water.load()
        }
    }

    /// What the rank noted of its death, for [`Note::from_words`](super::Note::from_words).
    pub fn note(&self) -> [u64; NOTE_WORDS] {
        self.ledger.note.words()
    }

    /// 1 + the last epoch after whose cut a thread of the rank has changed files; 0: none has.
    pub fn effects(&self) -> u64 {
        self.ledger.effects.load(SeqCst)
    }

    /// The status with which the rank has ended without `MPI_Finalize`, if it has.
    pub fn left(&self) -> Option<u32> {
        self.ledger.left()
    }

    /// Whether both streams have ended.
    pub fn is_closed(&self) -> bool {
        self.ledger.closed.load(SeqCst) != 0
    }

    /// `errno` of the first write to the real descriptor that failed.
    pub fn write_error(&self, stream: Stream) -> Option<i32> {
        Some(self.ledger.cell(stream).errno.load(SeqCst)).filter(|&errno| errno != 0)
    }

    /// The relay holds a lock on its ledger as long as it lives, however it ends.
    pub fn relay_alive(&self) -> bool {
        match sys::try_lock(&self.file, false) {
            Ok(true) => {
                sys::unlock(&self.file);
                false
            }
            Ok(false) => true,
            // A file system without flock(2) tells nothing: believe in the relay, the timeout will
            // do.
            Err(_) => true,
        }
    }

    /// Removes the ledger file of a rank that can no longer ask its relay to.
    pub fn remove(self) -> std::io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}
