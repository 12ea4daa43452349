//! The ledger file: layout, creation by the relay, mapping by everyone.
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
use understudy_formats::private::open_own;

/// First eight bytes of a ledger that is ready; zero before.
pub const LEDGER_MAGIC: u64 = u64::from_le_bytes(*b"USTDYLGR");

/// Bump rule: any change to the layout or to the meaning of a field of [`Ledger`] or
/// [`StreamCell`], or to the protocol in the module's documentation, is a new version. Nobody reads
/// another one.
pub const LEDGER_VERSION: u32 = 6;

/// Length of the file: one page.
pub const LEDGER_LEN: usize = 4096;

/// Where a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamState {
    /// The relay was started without this stream.
    Absent = 0,
    Open = 1,
    /// Every writer is gone and every byte is forwarded.
    Ended = 2,
}

/// How far the rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum RankStage {
    Starting = 0,
    /// Inside of `MPI_Init`, where it waits for every other rank.
    Initialising = 1,
    /// Past it: from here on its death is noticed by the others.
    Running = 2,
}

/// The books of one stream. "Rank" and "relay" say who writes a field.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct StreamCell {
    /// Relay: odd around `read(2)` and the changes to `raw_read`, `place` and `command` it entails.
    pub(super) seq: AtomicU32,
    /// A [`StreamState`], set by the relay.
    pub(super) state: AtomicU32,
    /// Relay: bytes read from the pipe.
    pub(super) raw_read: AtomicU64,
    /// Relay: place of the next byte to be read.
    pub(super) place: PositionCell,
    /// Relay: the place behind the last byte that was new when it was forwarded.
    pub(super) high_water: PositionCell,
    /// Relay: bytes read that are dealt with, be it forwarded, dropped or lost.
    pub(super) settled: AtomicU64,
    /// Relay: repeated bytes dropped.
    pub(super) dropped: AtomicU64,
    /// Relay: bytes the real descriptor refused.
    pub(super) lost: AtomicU64,
    /// Relay: `errno` of the first such refusal.
    pub(super) errno: AtomicI32,
    /// Rank sets [`POSTED`] last of all; relay sets [`IDLE`].
    pub(super) command: AtomicU32,
    /// Rank: the raw count the command is for.
    pub(super) command_at: AtomicU64,
    /// Rank: the place there.
    pub(super) command_place: PositionCell,
    /// Rank: the high-water mark from there on, if `command_marks`.
    pub(super) command_high_water: PositionCell,
    /// Rank: 1 if the command sets the high-water mark.
    pub(super) command_marks: AtomicU32,
}

pub(super) const IDLE: u32 = 0;
pub(super) const POSTED: u32 = 1;

impl StreamCell {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            seq: AtomicU32::new(0),
            state: AtomicU32::new(StreamState::Absent as u32),
            raw_read: zero(),
            place: PositionCell::new(),
            high_water: PositionCell::new(),
            settled: zero(),
            dropped: zero(),
            lost: zero(),
            errno: AtomicI32::new(0),
            command: AtomicU32::new(IDLE),
            command_at: zero(),
            command_place: PositionCell::new(),
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

/// The whole ledger, as it lies in the file.
#[repr(C)]
#[derive(Debug)]
pub struct Ledger {
    /// Relay: [`LEDGER_MAGIC`], set last.
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    /// Relay: its process id, for people.
    pub(super) relay_pid: AtomicU32,
    /// Relay: 1 when both streams have ended, right before it exits.
    pub(super) closed: AtomicU32,
    /// Rank: 1 asks the relay to remove the file when it is closed.
    pub(super) remove_on_close: AtomicU32,
    /// Rank: its process id; 0 until it has introduced itself.
    pub(super) rank_pid: AtomicU32,
    /// Rank: process id of the launcher, its parent.
    pub(super) launcher_pid: AtomicU32,
    /// A [`RankStage`], set by the rank.
    pub(super) stage: AtomicU32,
    /// Rank: 1 while it is a spare without a part.
    pub(super) idle: AtomicU32,
    /// Rank: 1 + the status with which it ends without `MPI_Finalize`; 0 otherwise.
    pub(super) left: AtomicU32,
    pub(super) streams: [StreamCell; 2],
    /// Rank: what it dies of.
    pub(super) note: NoteCell,
    /// Rank: 1 + the last epoch after whose cut one of its threads has changed files; 0: none has.
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
            left: flag(),
            streams: [StreamCell::new(), StreamCell::new()],
            note: NoteCell::new(),
            effects: AtomicU64::new(0),
        }
    }

    /// Declares the ledger ready for the other side.
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

    /// The status with which the rank has ended without `MPI_Finalize`, if it has.
    pub(super) fn left(&self) -> Option<u32> {
        self.left.load(SeqCst).checked_sub(1)
    }

    pub(super) fn cell(&self, stream: Stream) -> &StreamCell {
        &self.streams[stream.index()]
    }
}

/// What can go wrong between a rank and a ledger.
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
    RelayGone,
    #[error(
        "the relay is not done after {0:?}: some process still holds the pipe, or the reader is \
         stalled"
    )]
    Timeout(Duration),
}

/// A ledger mapped from its file.
pub(super) struct Mapping {
    at: NonNull<u8>,
}

// SAFETY: a mapping may be used and unmapped by any thread, and `Ledger` consists of atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, writable: bool) -> io::Result<Self> {
        Ok(Self {
            at: sys::map_shared(file, LEDGER_LEN, writable)?,
        })
    }

    /// The relay's side: takes the file over, empty as it may be, and leaves it blank and
    /// allocated.
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

    /// The rank's side: waits until the relay has made the ledger ready, or `look` finds why it
    /// will not.
    pub(super) fn open(
        path: &Path,
        writable: bool,
        timeout: Duration,
        look: impl Fn() -> Result<(), LedgerError>,
    ) -> Result<(Self, File), LedgerError> {
        let begin = Instant::now();
        loop {
            let state = look();
            if let Some(ready) = Self::open_if_ready(path, writable)? {
                return Ok(ready);
            }
            state?;
            if begin.elapsed() >= timeout {
                return Err(LedgerError::NotReady(timeout));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// A ledger that is ready already.
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
        let meta = file.metadata()?;
        if meta.len() < LEDGER_LEN as u64 {
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
        // SAFETY: the mapping is page-aligned, at least as long as a `Ledger` (asserted above),
        // lives as long as `self`, and every bit pattern is a valid `Ledger`, as it consists of
        // atomics only. A read-only mapping is given out by `LedgerObserver` alone, which only
        // loads.
        unsafe { self.at.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `map_shared` with this length; references to it end with `self`.
        unsafe { sys::unmap(self.at, LEDGER_LEN) };
    }
}
