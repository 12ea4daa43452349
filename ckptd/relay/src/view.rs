//! The rank's side of the ledger.

use super::ledger::{IDLE, LedgerError, Mapping, POSTED, RankStage, StreamCell, StreamState};
use super::note::NoteCell;
use super::position::Position;
use super::sys;
use crate::stream::{RawCount, Stream};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A rank's own ledger together with the write ends of its pipes.
///
/// All state is in the ledger, none in this value, so a rollback of the rank's memory does not
/// disturb it, provided the mapping of the ledger itself is no part of a checkpoint. None of the
/// operations allocates. They presume that nothing writes to the stream meanwhile.
pub struct LedgerView {
    ledger: Mapping,
    pipes: [Option<RawFd>; 2],
}

/// What one look at a stream gives.
struct Snapshot {
    written: u64,
    /// Of the next byte to be written, unless the relay has to read what is before it first.
    place: Option<Position>,
    /// A command waits for the next byte to be written.
    pending: bool,
}

impl LedgerView {
    /// Maps the ledger at `path`, waiting up to `timeout` for the relay to make it, unless that is
    /// found to be gone or unable to.
    ///
    /// `pipes` are the write ends for [`Stream::Out`] and [`Stream::Err`], `None` where the relay
    /// has no such stream. They must stay open as long as the view is used, so give private
    /// duplicates if the program may close or replace its descriptors 1 and 2.
    pub fn attach(
        path: &Path,
        pipes: [Option<RawFd>; 2],
        timeout: Duration,
    ) -> Result<Self, LedgerError> {
        let given = || pipes.into_iter().flatten();
        let look = || match () {
            () if given().any(sys::reader_gone) => Err(LedgerError::RelayGone),
            () if given().any(sys::is_marked) => Err(LedgerError::Impossible),
            () => Ok(()),
        };
        let (ledger, _) = Mapping::open(path, true, timeout, look)?;
        for stream in Stream::BOTH {
            match pipes[stream.index()] {
                Some(fd) if !sys::is_pipe(fd) => return Err(LedgerError::NotAPipe(stream)),
                Some(_) if ledger.cell(stream).state() == StreamState::Absent => {
                    return Err(LedgerError::Absent(stream));
                }
                _ => {}
            }
        }
        Ok(Self { ledger, pipes })
    }

    /// Tells the relay who this process is: with the launcher's process id, and how many ranks that
    /// has started on this node.
    pub fn introduce(&self, launcher_pid: u32) {
        self.ledger.launcher_pid.store(launcher_pid, SeqCst);
        self.ledger.rank_pid.store(std::process::id(), SeqCst);
    }

    /// Tells the relays how far this process is.
    pub fn set_stage(&self, stage: RankStage) {
        self.ledger.stage.store(stage as u32, SeqCst);
    }

    /// Tells the relays whether this process is a spare without a part.
    pub fn set_idle(&self, idle: bool) {
        self.ledger.idle.store(idle.into(), SeqCst);
    }

    /// Where this process notes what it dies of.
    pub fn note(&self) -> &NoteCell {
        &self.ledger.note
    }

    /// Where threads of this process note the epoch, plus 1, after whose cut they change files.
    pub fn effects(&self) -> &AtomicU64 {
        &self.ledger.effects
    }

    /// Tells the relay that this process ends with `status` although the job needs it. The relay
    /// ends the job then, if the others do not end by themselves.
    pub fn leave(&self, status: i32) {
        self.ledger.left.store(1 + (status & 0xff) as u32, SeqCst);
    }

    /// Exactly how many bytes this process (and those before it in this pipe) wrote so far.
    pub fn written(&self, stream: Stream) -> Result<RawCount, LedgerError> {
        self.snapshot(stream).map(|now| RawCount(now.written))
    }

    /// Place of the next byte to be written. To be kept with a cut. Waits until the relay has read
    /// what was written before: it counts the lines.
    pub fn position(&self, stream: Stream) -> Result<Position, LedgerError> {
        let (_, pipe) = self.stream(stream)?;
        wait(pipe, None, || Ok(self.snapshot(stream)?.place))
    }

    /// After a rollback: the next byte to be written has this place.
    ///
    /// Returns at once, unless an earlier rebase is still on its way through a full pipe.
    pub fn rebase(&self, stream: Stream, place: Position) -> Result<(), LedgerError> {
        self.post(stream, place, None)
    }

    /// For an understudy that goes on with a dead rank's part: the next byte to be written has this
    /// place, and everything below `high_water` has been forwarded by the dead rank's relay.
    pub fn takeover(
        &self,
        stream: Stream,
        place: Position,
        high_water: Position,
    ) -> Result<(), LedgerError> {
        self.post(stream, place, Some(high_water))
    }

    /// Waits until everything written so far is forwarded (or dropped, or refused).
    pub fn flush(&self, stream: Stream, timeout: Duration) -> Result<(), LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let written = self.snapshot(stream)?.written;
        wait(pipe, Some(timeout), || {
            Ok((cell.settled.load(SeqCst) >= written).then_some(()))
        })
    }

    /// Asks the relay to remove the ledger file at its end: the rank is about to end in good order.
    pub fn remove_on_close(&self) {
        self.ledger.remove_on_close.store(1, SeqCst);
    }

    /// `errno` of the first write to the real descriptor that failed.
    pub fn write_error(&self, stream: Stream) -> Option<i32> {
        Some(self.ledger.cell(stream).errno.load(SeqCst)).filter(|&errno| errno != 0)
    }

    /// Repeated bytes dropped so far.
    pub fn dropped(&self, stream: Stream) -> u64 {
        self.ledger.cell(stream).dropped.load(SeqCst)
    }

    fn stream(&self, stream: Stream) -> Result<(&StreamCell, RawFd), LedgerError> {
        let pipe = self.pipes[stream.index()].ok_or(LedgerError::Absent(stream))?;
        Ok((self.ledger.cell(stream), pipe))
    }

    fn snapshot(&self, stream: Stream) -> Result<Snapshot, LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let mut rounds = 0u32;
        loop {
            let seq = cell.seq.load(SeqCst);
            let now = look(cell, pipe)?;
            if seq % 2 == 0 && cell.seq.load(SeqCst) == seq {
                return Ok(now);
            }
            rounds += 1;
            if rounds.is_multiple_of(64) {
                if sys::reader_gone(pipe) {
                    return Err(LedgerError::RelayGone);
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    fn post(
        &self,
        stream: Stream,
        place: Position,
        high_water: Option<Position>,
    ) -> Result<(), LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let now = self.snapshot(stream)?;
        if now.pending {
            // Ours until a further byte is written. A rebase keeps the mark a takeover has set.
            if let Some(mark) = high_water {
                cell.command_high_water.store(mark);
                cell.command_marks.store(1, SeqCst);
            }
            cell.command_place.store(place);
            return Ok(());
        }
        wait(pipe, None, || {
            Ok((cell.command.load(SeqCst) == IDLE).then_some(()))
        })?;
        cell.command_at.store(now.written, SeqCst);
        cell.command_place.store(place);
        cell.command_high_water
            .store(high_water.unwrap_or_default());
        cell.command_marks
            .store(high_water.is_some().into(), SeqCst);
        cell.command.store(POSTED, SeqCst);
        Ok(())
    }
}

/// One look, to be thrown away if `seq` changed meanwhile.
fn look(cell: &StreamCell, pipe: RawFd) -> Result<Snapshot, LedgerError> {
    let raw_read = cell.raw_read.load(SeqCst);
    let place = cell.place.load();
    let posted = cell.command.load(SeqCst) == POSTED;
    let (at, at_place) = (cell.command_at.load(SeqCst), cell.command_place.load());
    let written = raw_read.wrapping_add(sys::unread(pipe)?);
    let pending = posted && at == written;
    Ok(Snapshot {
        written,
        place: if pending {
            Some(at_place)
        } else {
            (raw_read == written).then_some(place)
        },
        pending,
    })
}

/// Waits for the relay, polling, as long as there is one, until `look` gives something.
fn wait<T>(
    pipe: RawFd,
    timeout: Option<Duration>,
    look: impl Fn() -> Result<Option<T>, LedgerError>,
) -> Result<T, LedgerError> {
    let begin = Instant::now();
    let mut poll_interval = Duration::from_micros(10);
    loop {
        let gone = sys::reader_gone(pipe);
        if let Some(found) = look()? {
            return Ok(found);
        }
        if gone {
            return Err(LedgerError::RelayGone);
        }
        if let Some(limit) = timeout.filter(|&limit| begin.elapsed() >= limit) {
            return Err(LedgerError::Timeout(limit));
        }
        std::thread::sleep(poll_interval);
        poll_interval = (poll_interval * 2).min(Duration::from_millis(1));
    }
}
