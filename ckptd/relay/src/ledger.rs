//! The ledger file: its layout, creation and mapping.
#![allow(unsafe_code)]

use super::note::NoteCell;
use super::position::PositionCell;
use super::sys;
use crate::stream::Stream;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use understudy_formats::private_directories::open_own;

/// First eight bytes of a complete ledger; zero until the ledger is ready.
pub const LEDGER_MAGIC: u64 = u64::from_le_bytes(*b"USTDYLGR");

/// Version of the ledger.
///
/// Any change to the layout or to the meaning of a field of [`Ledger`] or [`StreamCell`], or to the
/// protocol in the documentation of the crate, requires a new version. Other versions are refused.
pub const LEDGER_VERSION: u32 = 6;

/// Length of the file: one page.
pub const LEDGER_LEN: usize = 4096;

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamState {
    /// The relay was started without this stream.
    Absent = 0,
    Open = 1,
    /// All writers have closed the stream, and every byte is forwarded.
    Ended = 2,
}

/// Progress of the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum RankStage {
    Starting = 0,
    /// The rank is inside `MPI_Init`, where it waits for all other ranks.
    Initialising = 1,
    /// The rank has left `MPI_Init`: from now on the other ranks notice its death.
    Running = 2,
}

/// Counters of one stream; "Rank" and "Relay" name the writer of a field.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct StreamCell {
    /// Relay: odd during `read(2)` and the resulting changes to `raw_read`, `position`, `command`.
    pub(super) seq: AtomicU32,
    /// A [`StreamState`], set by the relay.
    pub(super) state: AtomicU32,
    /// Relay: number of bytes that were read from the pipe.
    pub(super) raw_read: AtomicU64,
    /// Relay: position of the next byte to be read.
    pub(super) position: PositionCell,
    /// Relay: position behind the last byte that was new when it was forwarded.
    pub(super) high_water: PositionCell,
    /// Relay: number of bytes that were read and forwarded, dropped or lost.
    pub(super) handled: AtomicU64,
    /// Relay: number of repeated bytes that were dropped.
    pub(super) dropped: AtomicU64,
    /// Relay: number of bytes that the real descriptor refused.
    pub(super) lost: AtomicU64,
    /// Relay: `errno` of the first refusal.
    pub(super) errno: AtomicI32,
    /// State of the command: the rank sets [`POSTED`] after all other fields, the relay [`IDLE`].
    pub(super) command: AtomicU32,
    /// Rank: raw count at which the command applies.
    pub(super) command_at: AtomicU64,
    /// Rank: position of the byte at that raw count.
    pub(super) command_position: PositionCell,
    /// Rank: high-water mark from that raw count on, if `command_marks` is 1.
    pub(super) command_high_water: PositionCell,
    /// Rank: 1 if the command sets the high-water mark.
    pub(super) command_marks: AtomicU32,
}

/// Command state: no command.
pub(super) const IDLE: u32 = 0;
/// Command state: the command is complete and not applied yet.
pub(super) const POSTED: u32 = 1;

impl StreamCell {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            seq: AtomicU32::new(0),
            state: AtomicU32::new(StreamState::Absent as u32),
            raw_read: zero(),
            position: PositionCell::new(),
            high_water: PositionCell::new(),
            handled: zero(),
            dropped: zero(),
            lost: zero(),
            errno: AtomicI32::new(0),
            command: AtomicU32::new(IDLE),
            command_at: zero(),
            command_position: PositionCell::new(),
            command_high_water: PositionCell::new(),
            command_marks: AtomicU32::new(0),
        }
    }

    pub fn state(&self) -> StreamState {
        match self.state.load(SeqCst) {
            0 => StreamState::Absent,
            1 => StreamState::Open,
            _ => StreamState::Ended,
        }
    }
}

/// The whole ledger, as stored in the file.
#[repr(C)]
#[derive(Debug)]
pub struct Ledger {
    /// Relay: [`LEDGER_MAGIC`], set last.
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    /// Relay: its process id, for information.
    pub(super) relay_pid: AtomicU32,
    /// Relay: 1 when both streams have ended, just before it exits.
    pub(super) closed: AtomicU32,
    /// Rank: 1 requests that the relay removes the file at its end.
    pub(super) remove_on_close: AtomicU32,
    /// Rank: its process id; 0 until it has introduced itself.
    pub(super) rank_pid: AtomicU32,
    /// Rank: process id of its parent, which is its guardian or the launcher.
    pub(super) launcher_pid: AtomicU32,
    /// A [`RankStage`], set by the rank.
    pub(super) stage: AtomicU32,
    /// Rank: 1 while it is an idle spare.
    pub(super) idle: AtomicU32,
    /// Rank: 1 + the status with which it exits without `MPI_Finalize`; 0 otherwise.
    pub(super) early_exit: AtomicU32,
    pub(super) streams: [StreamCell; 2],
    /// Rank: record of its fatal signal.
    pub(super) note: NoteCell,
    /// Rank: 1 + the last checkpoint after which threads have changed files.
    ///
    /// Only threads without the MPI lock count. Zero if there was no such change.
    pub(super) effects: AtomicU64,
}

const _: () = assert!(size_of::<Ledger>() <= LEDGER_LEN && align_of::<Ledger>() <= LEDGER_LEN);

impl Ledger {
    pub(super) fn new() -> Self {
        let flag = || AtomicU32::new(0);
        Self {
            magic: AtomicU64::new(0),
            version: flag(),
            relay_pid: flag(),
            closed: flag(),
            remove_on_close: flag(),
            rank_pid: flag(),
            launcher_pid: flag(),
            stage: flag(),
            idle: flag(),
            early_exit: flag(),
            streams: [StreamCell::new(), StreamCell::new()],
            note: NoteCell::new(),
            effects: AtomicU64::new(0),
        }
    }

    /// Marks the ledger as ready.
    pub(super) fn publish(&self) {
        self.version.store(LEDGER_VERSION, SeqCst);
        self.relay_pid.store(std::process::id(), SeqCst);
        self.magic.store(LEDGER_MAGIC, SeqCst);
    }

    pub(super) fn stage(&self) -> RankStage {
        match self.stage.load(SeqCst) {
            0 => RankStage::Starting,
            1 => RankStage::Initialising,
            _ => RankStage::Running,
        }
    }

    /// Returns the status with which the rank has exited without `MPI_Finalize`.
    pub(super) fn early_exit_status(&self) -> Option<u32> {
        self.early_exit.load(SeqCst).checked_sub(1)
    }

    pub(super) fn cell(&self, stream: Stream) -> &StreamCell {
        &self.streams[stream.index()]
    }
}

/// Errors of access to a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger cannot be opened: {0}")]
    Io(#[from] io::Error),
    #[error("the relay has not made its ledger within {0:?}")]
    NotReady(Duration),
    #[error("the relay cannot make its ledger")]
    Impossible,
    #[error("the file is not a ledger of this user's relay")]
    NotALedger,
    #[error(
        "foreign version: the ledger has version {found}, this program uses version \
         {LEDGER_VERSION}"
    )]
    ForeignVersion { found: u32 },
    #[error("the descriptor given for {0} is not a pipe")]
    NotAPipe(Stream),
    #[error("the relay has no {0}")]
    Absent(Stream),
    #[error("the relay was killed")]
    RelayDied,
    #[error(
        "the relay is not done after {0:?}: some process still holds the pipe, or the reader is \
         stalled"
    )]
    Timeout(Duration),
}

/// A ledger mapped from its file.
pub(super) struct Mapping {
    start: NonNull<u8>,
}

// SAFETY: any thread may use and unmap a mapping, and `Ledger` consists of atomics only.
unsafe impl Send for Mapping {}
// SAFETY: any thread may use and unmap a mapping, and `Ledger` consists of atomics only.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, writable: bool) -> io::Result<Self> {
        Ok(Self {
            start: sys::map_shared(file, LEDGER_LEN, writable)?,
        })
    }

    /// Creates the ledger for the relay: locks the file, clears it and allocates its blocks.
    ///
    /// The relay keeps the returned file open: its lock shows that the relay lives.
    pub(super) fn create(path: &Path) -> io::Result<(Self, File)> {
        let file = open_own(path, libc::O_RDWR | libc::O_CREAT)?;
        if !sys::try_lock(&file, true)? {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another relay uses this ledger",
            ));
        }
        file.set_len(0)?;
        sys::allocate(&file, LEDGER_LEN)?;
        Ok((Self::new(&file, true)?, file))
    }

    /// Opens the ledger for a rank: waits until the relay has made it ready.
    ///
    /// The wait ends with the error of `check` if `check` fails. The ledger is examined after each
    /// `check`, so that a ledger which was completed just before is not missed.
    pub(super) fn open(
        path: &Path,
        writable: bool,
        timeout: Duration,
        check: impl Fn() -> Result<(), LedgerError>,
    ) -> Result<(Self, File), LedgerError> {
        let begin = Instant::now();
        loop {
            let checked = check();
            if let Some(ready) = Self::open_if_ready(path, writable)? {
                return Ok(ready);
            }
            checked?;
            if begin.elapsed() >= timeout {
                return Err(LedgerError::NotReady(timeout));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Opens a ledger that is ready already.
    pub(super) fn open_ready(path: &Path, writable: bool) -> Result<(Self, File), LedgerError> {
        Self::open_if_ready(path, writable)?.ok_or(LedgerError::NotReady(Duration::ZERO))
    }

    fn open_if_ready(path: &Path, writable: bool) -> Result<Option<(Self, File)>, LedgerError> {
        let access = if writable {
            libc::O_RDWR
        } else {
            libc::O_RDONLY
        };
        let file = match open_own(path, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if file.metadata()?.len() < LEDGER_LEN as u64 {
            return Ok(None);
        }
        let mapping = Self::new(&file, writable)?;
        match mapping.magic.load(SeqCst) {
            0 => Ok(None),
            LEDGER_MAGIC => match mapping.version.load(SeqCst) {
                LEDGER_VERSION => Ok(Some((mapping, file))),
                found => Err(LedgerError::ForeignVersion { found }),
            },
            _ => Err(LedgerError::NotALedger),
        }
    }
}

impl Deref for Mapping {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        // SAFETY: the mapping is page-aligned, at least as long as a `Ledger` (asserted above), and
        // lives as long as `self`. Every bit pattern is a valid `Ledger`, because it consists of
        // atomics only. `LedgerObserver` and `survey` use read-only mappings, and only load.
        unsafe { self.start.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map_shared` with this length, and no reference outlives
        // `self`.
        unsafe { sys::unmap(self.start, LEDGER_LEN) };
    }
}
