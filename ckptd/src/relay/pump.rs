//! One stream through the relay.

use super::ledger::{IDLE, KEEP, POSTED, StreamCell, StreamState};
use super::sys;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Most bytes taken at once: the usual capacity of a pipe (pipe(7)).
const CHUNK: usize = 64 * 1024;

/// A piece of a chunk whose bytes follow one another logically.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    bytes: Range<usize>,
    /// Logical position of the first byte.
    logical: u64,
    /// Sets the high-water mark before it.
    high_water: Option<u64>,
}

enum Taken {
    /// What was read, cut in two where a command applies.
    Pieces(Piece, Option<Piece>),
    Nothing,
    End,
}

/// Forwards `input` to `output` till its end and keeps the books in `cell`.
pub(super) fn pump(cell: &StreamCell, input: RawFd, output: RawFd) {
    let mut buffer = vec![0; CHUNK];
    sys::set_nonblocking(input);
    loop {
        if sys::poll(input, libc::POLLIN, None).is_err() {
            // No memory for poll(2): try again rather than spin.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match take(cell, input, &mut buffer) {
            Taken::Nothing => {}
            Taken::End => break,
            Taken::Pieces(first, second) => {
                for piece in std::iter::once(first).chain(second) {
                    settle(cell, output, &buffer[piece.bytes.clone()], &piece);
                }
            }
        }
    }
    cell.state.store(StreamState::Ended as u32, SeqCst);
}

/// Reads once. `seq` is odd from before the read until the counters agree with it again.
fn take(cell: &StreamCell, input: RawFd, buffer: &mut [u8]) -> Taken {
    let seq = cell.seq.load(Relaxed);
    cell.seq.store(seq.wrapping_add(1), SeqCst);
    let taken = match sys::read(input, buffer) {
        Ok(0) => end(cell),
        Ok(count) => account(cell, count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Taken::Nothing,
        Err(_) => end(cell),
    };
    cell.seq.store(seq.wrapping_add(2), SeqCst);
    taken
}

/// Moves the counters over `count` bytes just read and applies a command that is due among them.
fn account(cell: &StreamCell, count: usize) -> Taken {
    let raw = cell.raw_read.load(Relaxed);
    let logical = cell.logical.load(Relaxed);
    let after = raw + count as u64;
    cell.raw_read.store(after, SeqCst);
    let due = cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) < after;
    if !due {
        cell.logical.store(logical + count as u64, SeqCst);
        return Taken::Pieces(
            Piece {
                bytes: 0..count,
                logical,
                high_water: None,
            },
            None,
        );
    }
    let (second_logical, high_water, split) = apply(cell, raw);
    cell.logical.store(second_logical + (count - split) as u64, SeqCst);
    let first = Piece {
        bytes: 0..split,
        logical,
        high_water: None,
    };
    let second = Piece {
        bytes: split..count,
        logical: second_logical,
        high_water,
    };
    Taken::Pieces(first, Some(second))
}

/// Takes the command off: the logical position and mark from `split` bytes behind `raw` on.
fn apply(cell: &StreamCell, raw: u64) -> (u64, Option<u64>, usize) {
    let at = cell.command_at.load(SeqCst);
    let logical = cell.command_logical.load(SeqCst);
    let high_water = cell.command_high_water.load(SeqCst);
    cell.command.store(IDLE, SeqCst);
    // `at` is never behind `raw` unless somebody wrote while the rank posted; count from `at` even so.
    let late = raw.saturating_sub(at);
    (
        logical + late,
        (high_water != KEEP).then_some(high_water),
        at.saturating_sub(raw) as usize,
    )
}

/// A command behind the last byte still counts: another process may go on from here.
fn end(cell: &StreamCell) -> Taken {
    let raw = cell.raw_read.load(Relaxed);
    if cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) <= raw {
        let (logical, high_water, _) = apply(cell, raw);
        cell.logical.store(logical, SeqCst);
        if let Some(mark) = high_water {
            cell.high_water.store(mark, SeqCst);
        }
    }
    Taken::End
}

/// Forwards what of a piece has not been forwarded before.
fn settle(cell: &StreamCell, output: RawFd, bytes: &[u8], piece: &Piece) {
    if let Some(mark) = piece.high_water {
        cell.high_water.store(mark, SeqCst);
    }
    let seen = cell
        .high_water
        .load(Relaxed)
        .saturating_sub(piece.logical)
        .min(bytes.len() as u64);
    cell.dropped.fetch_add(seen, SeqCst);
    let mut rest = &bytes[seen as usize..];
    let mut at = piece.logical + seen;
    while !rest.is_empty() {
        let gone = match sys::write(output, rest) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = sys::poll(output, libc::POLLOUT, None);
                0
            }
            Err(error) => refused(cell, &error, rest.len()),
        };
        rest = &rest[gone..];
        at += gone as u64;
        if gone > 0 {
            cell.high_water.store(at, SeqCst);
        }
    }
    cell.settled.fetch_add(bytes.len() as u64, SeqCst);
}

/// The real descriptor does not take the rest of a piece. The rank must not block on it: it is lost,
/// as it would have been without a relay, and the next piece is tried anew.
fn refused(cell: &StreamCell, error: &io::Error, count: usize) -> usize {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let _ = cell.errno.compare_exchange(0, errno, SeqCst, Relaxed);
    cell.lost.fetch_add(count as u64, SeqCst);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(cell: &StreamCell, at: u64, logical: u64, high_water: u64) {
        cell.command_at.store(at, SeqCst);
        cell.command_logical.store(logical, SeqCst);
        cell.command_high_water.store(high_water, SeqCst);
        cell.command.store(POSTED, SeqCst);
    }

    fn pieces(taken: Taken) -> (Piece, Option<Piece>) {
        match taken {
            Taken::Pieces(first, second) => (first, second),
            _ => panic!("not pieces"),
        }
    }

    #[test]
    fn a_command_splits_the_chunk_it_falls_into() {
        let cell = StreamCell::new();
        post(&cell, 10, 4, KEEP);
        let (first, second) = pieces(account(&cell, 10));
        assert_eq!((first.bytes, second), (0..10, None), "byte 10 is not in the chunk");
        assert_eq!(cell.command.load(SeqCst), POSTED);
        let (first, second) = pieces(account(&cell, 5));
        assert_eq!((first.bytes, first.logical), (0..0, 10));
        assert_eq!(
            second,
            Some(Piece {
                bytes: 0..5,
                logical: 4,
                high_water: None
            })
        );
        assert_eq!((cell.command.load(SeqCst), cell.logical.load(SeqCst)), (IDLE, 9));
        post(&cell, 18, 100, 120);
        let (first, second) = pieces(account(&cell, 8));
        assert_eq!((first.bytes, first.logical), (0..3, 9));
        assert_eq!(
            second,
            Some(Piece {
                bytes: 3..8,
                logical: 100,
                high_water: Some(120)
            })
        );
        assert_eq!((cell.raw_read.load(SeqCst), cell.logical.load(SeqCst)), (23, 105));
    }

    #[test]
    fn only_what_is_new_is_forwarded() {
        let (cell, (mut reader, writer)) = (StreamCell::new(), io::pipe().expect("pipe"));
        let output = std::os::fd::AsRawFd::as_raw_fd(&writer);
        let piece = |logical, high_water| Piece {
            bytes: 0..0,
            logical,
            high_water,
        };
        settle(&cell, output, b"01234", &piece(0, None));
        settle(&cell, output, b"234567", &piece(2, None));
        settle(&cell, output, b"5", &piece(5, None));
        settle(&cell, output, b"456789", &piece(4, Some(9)));
        assert_eq!(
            (cell.high_water.load(SeqCst), cell.dropped.load(SeqCst)),
            (10, 3 + 1 + 5)
        );
        drop(writer);
        let shown = io::read_to_string(&mut reader).expect("text");
        assert_eq!(shown, "012345679");
    }
}
