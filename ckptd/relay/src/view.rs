//! Access of a rank to its own ledger.

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
/// This value has no state of its own: all state is in the ledger, which a rollback of the rank's
/// memory does not change. The mapping of the ledger must therefore not be part of a checkpoint.
/// The functions do not allocate, and assume that no process writes to the stream meanwhile.
pub struct LedgerView {
    ledger: Mapping,
    pipes: [Option<RawFd>; 2],
}

/// Consistent values of a stream's counters.
struct Snapshot {
    written: u64,
    /// Position of the next byte to be written.
    ///
    /// `None` while the relay has not read all bytes.
    position: Option<Position>,
    /// True if a posted command applies to the next byte to be written.
    is_command_pending: bool,
}

impl LedgerView {
    /// Maps the ledger at `path`; waits up to `timeout` for the relay to create it.
    ///
    /// The wait ends early if the relay has died or cannot create the ledger.
    ///
    /// `pipes` are the write ends for [`Stream::Out`] and [`Stream::Err`], `None` if the relay has
    /// no such stream. They must stay open as long as the view is used. If the program may close or
    /// replace its descriptors 1 and 2, the caller passes duplicates.
    pub fn attach(
        path: &Path,
        pipes: [Option<RawFd>; 2],
        timeout: Duration,
    ) -> Result<Self, LedgerError> {
        let write_ends = || pipes.into_iter().flatten();
        let check = || {
            if write_ends().any(sys::has_no_reader) {
                Err(LedgerError::RelayDied)
            } else if write_ends().any(sys::is_marked_without_ledger) {
                Err(LedgerError::Impossible)
            } else {
                Ok(())
            }
        };
        let (ledger, _) = Mapping::open(path, true, timeout, check)?;
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

    /// Records the process ids of this process and of its launcher.
    pub fn introduce(&self, launcher_pid: u32) {
        self.ledger.launcher_pid.store(launcher_pid, SeqCst);
        self.ledger.rank_pid.store(std::process::id(), SeqCst);
    }

    /// Records the progress of this process.
    pub fn set_stage(&self, stage: RankStage) {
        self.ledger.stage.store(stage as u32, SeqCst);
    }

    /// Records whether this process is an idle spare.
    pub fn set_idle(&self, idle: bool) {
        self.ledger.idle.store(idle.into(), SeqCst);
    }

    /// Returns the record for a fatal signal of this process.
    pub fn note(&self) -> &NoteCell {
        &self.ledger.note
    }

    /// Returns the cell that records changes of files by threads without the MPI lock.
    ///
    /// The value is 1 + the last checkpoint after which such a thread has changed files.
    pub fn effects(&self) -> &AtomicU64 {
        &self.ledger.effects
    }

    /// Records that this process exits with `status` without `MPI_Finalize`.
    pub fn record_early_exit(&self, status: i32) {
        self.ledger
            .early_exit
            .store(1 + (status & 0xff) as u32, SeqCst);
    }

    /// Returns the number of bytes that were written to this pipe.
    ///
    /// The count includes bytes of earlier processes with the same pipe.
    pub fn written(&self, stream: Stream) -> Result<RawCount, LedgerError> {
        self.snapshot(stream).map(|now| RawCount(now.written))
    }

    /// Returns the position of the next byte to be written, for a checkpoint.
    ///
    /// Returns at once if a posted command has set that position. Otherwise the function waits
    /// until the relay, which counts the lines, has read all bytes that were written before.
    pub fn position(&self, stream: Stream) -> Result<Position, LedgerError> {
        let (_, pipe) = self.stream(stream)?;
        wait(pipe, None, || Ok(self.snapshot(stream)?.position))
    }

    /// Sets the position of the next byte to be written, after a rollback.
    ///
    /// Waits only if an earlier command is still posted. The relay applies that command when it has
    /// read the pipe up to the byte for which the command was posted.
    pub fn rebase(&self, stream: Stream, position: Position) -> Result<(), LedgerError> {
        self.post(stream, position, None)
    }

    /// Sets the position of the next byte for a process that replaces a dead rank.
    ///
    /// Everything below `high_water` was forwarded by the dead rank's relay.
    pub fn takeover(
        &self,
        stream: Stream,
        position: Position,
        high_water: Position,
    ) -> Result<(), LedgerError> {
        self.post(stream, position, Some(high_water))
    }

    /// Waits until everything written so far is forwarded, dropped or refused.
    pub fn flush(&self, stream: Stream, timeout: Duration) -> Result<(), LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let written = self.snapshot(stream)?.written;
        wait(pipe, Some(timeout), || {
            Ok((cell.handled.load(SeqCst) >= written).then_some(()))
        })
    }

    /// Requests that the relay removes the ledger at its end, because the rank exits normally.
    pub fn remove_on_close(&self) {
        self.ledger.remove_on_close.store(1, SeqCst);
    }

    /// Returns `errno` of the first failed write to the real descriptor.
    pub fn write_error(&self, stream: Stream) -> Option<i32> {
        Some(self.ledger.cell(stream).errno.load(SeqCst)).filter(|&errno| errno != 0)
    }

    /// Returns the number of repeated bytes that were dropped so far.
    pub fn dropped(&self, stream: Stream) -> u64 {
        self.ledger.cell(stream).dropped.load(SeqCst)
    }

    fn stream(&self, stream: Stream) -> Result<(&StreamCell, RawFd), LedgerError> {
        let pipe = self.pipes[stream.index()].ok_or(LedgerError::Absent(stream))?;
        Ok((self.ledger.cell(stream), pipe))
    }

    fn snapshot(&self, stream: Stream) -> Result<Snapshot, LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let mut attempts = 0u32;
        loop {
            let seq = cell.seq.load(SeqCst);
            let now = read_counters(cell, pipe)?;
            if seq % 2 == 0 && cell.seq.load(SeqCst) == seq {
                return Ok(now);
            }
            attempts += 1;
            if attempts.is_multiple_of(64) {
                if sys::has_no_reader(pipe) {
                    return Err(LedgerError::RelayDied);
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Posts a command for the next byte to be written.
    fn post(
        &self,
        stream: Stream,
        position: Position,
        high_water: Option<Position>,
    ) -> Result<(), LedgerError> {
        let (cell, pipe) = self.stream(stream)?;
        let now = self.snapshot(stream)?;
        if now.is_command_pending {
            // The relay applies the posted command only after the rank has written another byte, so
            // the command can be changed. If an earlier takeover has set a high-water mark, a
            // rebase leaves the mark as it is.
            if let Some(mark) = high_water {
                cell.command_high_water.store(mark);
                cell.command_marks.store(1, SeqCst);
            }
            cell.command_position.store(position);
            return Ok(());
        }
        wait(pipe, None, || {
            Ok((cell.command.load(SeqCst) == IDLE).then_some(()))
        })?;
        cell.command_at.store(now.written, SeqCst);
        cell.command_position.store(position);
        cell.command_high_water
            .store(high_water.unwrap_or_default());
        cell.command_marks
            .store(high_water.is_some().into(), SeqCst);
        cell.command.store(POSTED, SeqCst);
        Ok(())
    }
}

/// Reads the counters once.
///
/// The result is valid if `seq` is even and has not changed meanwhile.
fn read_counters(cell: &StreamCell, pipe: RawFd) -> Result<Snapshot, LedgerError> {
    let raw_read = cell.raw_read.load(SeqCst);
    let next_to_read = cell.position.load();
    let is_posted = cell.command.load(SeqCst) == POSTED;
    let (command_at, commanded) = (cell.command_at.load(SeqCst), cell.command_position.load());
    let written = raw_read.wrapping_add(sys::unread(pipe)?);
    let is_command_pending = is_posted && command_at == written;
    Ok(Snapshot {
        written,
        position: if is_command_pending {
            Some(commanded)
        } else {
            (raw_read == written).then_some(next_to_read)
        },
        is_command_pending,
    })
}

/// Polls until `attempt` returns a value, the relay has died, or `timeout` has passed.
fn wait<T>(
    pipe: RawFd,
    timeout: Option<Duration>,
    attempt: impl Fn() -> Result<Option<T>, LedgerError>,
) -> Result<T, LedgerError> {
    let begin = Instant::now();
    let mut poll_interval = Duration::from_micros(10);
    loop {
        // The check precedes the attempt: if the relay completes its work and exits after the
        // check, the attempt still finds the result.
        let has_relay_died = sys::has_no_reader(pipe);
        if let Some(value) = attempt()? {
            return Ok(value);
        }
        if has_relay_died {
            return Err(LedgerError::RelayDied);
        }
        if let Some(limit) = timeout.filter(|&limit| begin.elapsed() >= limit) {
            return Err(LedgerError::Timeout(limit));
        }
        std::thread::sleep(poll_interval);
        poll_interval = (poll_interval * 2).min(Duration::from_millis(1));
    }
}
