//! Forwarding of one stream.

use super::ledger::{IDLE, POSTED, StreamCell, StreamState};
use super::position::Position;
use super::sys;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Maximum number of bytes per read: the usual capacity of a pipe (pipe(7)).
const CHUNK_BYTES: usize = 64 * 1024;

/// A part of a chunk whose bytes have contiguous positions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    bytes: Range<usize>,
    /// Position of the first byte.
    position: Position,
    /// New high-water mark, which is set before the piece is forwarded.
    high_water: Option<Position>,
}

enum ReadResult {
    /// Bytes that were read; a command splits them into two pieces.
    Pieces(Piece, Option<Piece>),
    Nothing,
    End,
}

/// Forwards `input` to `output` until its end, and updates the counters in `cell`.
pub(super) fn pump(cell: &StreamCell, input: RawFd, output: RawFd) {
    let mut buffer = vec![0; CHUNK_BYTES];
    sys::set_nonblocking(input);
    loop {
        if sys::poll(input, libc::POLLIN, None).is_err() {
            // poll(2) has no memory: retry after a pause instead of spinning.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match read_chunk(cell, input, &mut buffer) {
            ReadResult::Nothing => {}
            ReadResult::End => break,
            ReadResult::Pieces(first, second) => {
                for piece in std::iter::once(first).chain(second) {
                    forward(cell, output, &buffer[piece.bytes.clone()], &piece);
                }
            }
        }
    }
    cell.state.store(StreamState::Ended as u32, SeqCst);
}

/// Reads once; `seq` is odd until the counters are consistent with the read again.
fn read_chunk(cell: &StreamCell, input: RawFd, buffer: &mut [u8]) -> ReadResult {
    let seq = cell.seq.load(Relaxed);
    cell.seq.store(seq.wrapping_add(1), SeqCst);
    let result = match sys::read(input, buffer) {
        Ok(0) => end_input(cell),
        Ok(count) => advance(cell, &buffer[..count]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            ReadResult::Nothing
        }
        Err(_) => end_input(cell),
    };
    cell.seq.store(seq.wrapping_add(2), SeqCst);
    result
}

/// Advances the counters by the bytes read, and applies a command among them.
fn advance(cell: &StreamCell, bytes: &[u8]) -> ReadResult {
    let (raw, position) = (cell.raw_read.load(Relaxed), cell.position.load());
    let after = raw + bytes.len() as u64;
    cell.raw_read.store(after, SeqCst);
    let is_due = cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) < after;
    if !is_due {
        cell.position.store(position.after(bytes));
        let whole = Piece {
            bytes: 0..bytes.len(),
            position,
            high_water: None,
        };
        return ReadResult::Pieces(whole, None);
    }
    let command = take_command(cell);
    // A command is posted for the byte that the rank writes next, so its count is at least `raw`.
    let split = command.raw_count.saturating_sub(raw) as usize;
    cell.position.store(command.position.after(&bytes[split..]));
    let first = Piece {
        bytes: 0..split,
        position,
        high_water: None,
    };
    let second = Piece {
        bytes: split..bytes.len(),
        position: command.position,
        high_water: command.high_water,
    };
    ReadResult::Pieces(first, Some(second))
}

/// A command of the rank: the byte at `raw_count` has this position.
struct Command {
    raw_count: u64,
    position: Position,
    /// High-water mark from that byte on, if the command sets it.
    high_water: Option<Position>,
}

/// Removes the posted command from the cell.
fn take_command(cell: &StreamCell) -> Command {
    let marks = cell.command_marks.load(SeqCst) != 0;
    let command = Command {
        raw_count: cell.command_at.load(SeqCst),
        position: cell.command_position.load(),
        high_water: marks.then(|| cell.command_high_water.load()),
    };
    cell.command.store(IDLE, SeqCst);
    command
}

/// Ends the input, and applies a command behind the last byte.
///
/// Survivors read the final high-water mark, so that the command must not be lost.
fn end_input(cell: &StreamCell) -> ReadResult {
    let raw = cell.raw_read.load(Relaxed);
    if cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) <= raw {
        let command = take_command(cell);
        cell.position.store(command.position);
        if let Some(mark) = command.high_water {
            cell.high_water.store(mark);
        }
    }
    ReadResult::End
}

/// Forwards the bytes of a piece that are not below the high-water mark.
fn forward(cell: &StreamCell, output: RawFd, bytes: &[u8], piece: &Piece) {
    if let Some(mark) = piece.high_water {
        cell.high_water.store(mark);
    }
    let repeated = piece.position.below(cell.high_water.load(), bytes);
    let (repeated, mut rest) = bytes.split_at(repeated);
    cell.dropped.fetch_add(repeated.len() as u64, SeqCst);
    let mut position = piece.position.after(repeated);
    while !rest.is_empty() {
        let done = match sys::write(output, rest) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = sys::poll(output, libc::POLLOUT, None);
                0
            }
            Err(error) => count_lost(cell, &error, rest.len()),
        };
        if done > 0 {
            position = position.after(&rest[..done]);
            cell.high_water.store(position);
        }
        rest = &rest[done..];
    }
    cell.handled.fetch_add(bytes.len() as u64, SeqCst);
}

/// Counts bytes that the real descriptor refuses; returns their number.
///
/// The bytes are lost, as they would be without a relay, because the rank must not block. The next
/// piece is written as usual.
fn count_lost(cell: &StreamCell, error: &io::Error, count: usize) -> usize {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let _ = cell.errno.compare_exchange(0, errno, SeqCst, Relaxed);
    cell.lost.fetch_add(count as u64, SeqCst);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64, column: u64) -> Position {
        Position { line, column }
    }

    fn post(cell: &StreamCell, raw: u64, position: Position, high_water: Option<Position>) {
        cell.command_at.store(raw, SeqCst);
        cell.command_position.store(position);
        cell.command_high_water
            .store(high_water.unwrap_or_default());
        cell.command_marks
            .store(high_water.is_some().into(), SeqCst);
        cell.command.store(POSTED, SeqCst);
    }

    fn pieces(result: ReadResult) -> (Piece, Option<Piece>) {
        match result {
            ReadResult::Pieces(first, second) => (first, second),
            _ => panic!("not pieces"),
        }
    }

    #[test]
    fn a_command_splits_the_chunk_it_falls_into() {
        let cell = StreamCell::new();
        post(&cell, 10, at(0, 4), None);
        let (first, second) = pieces(advance(&cell, b"01234567\n9"));
        assert_eq!(
            (first.bytes, second),
            (0..10, None),
            "byte 10 is not in the chunk"
        );
        assert_eq!(cell.command.load(SeqCst), POSTED);
        let (first, second) = pieces(advance(&cell, b"45678"));
        assert_eq!((first.bytes, first.position), (0..0, at(1, 1)));
        let want = Piece {
            bytes: 0..5,
            position: at(0, 4),
            high_water: None,
        };
        assert_eq!(second, Some(want));
        assert_eq!(
            (cell.command.load(SeqCst), cell.position.load()),
            (IDLE, at(0, 9))
        );
        post(&cell, 18, at(7, 0), Some(at(8, 2)));
        let (first, second) = pieces(advance(&cell, b"012a\ncde"));
        assert_eq!((first.bytes, first.position), (0..3, at(0, 9)));
        let want = Piece {
            bytes: 3..8,
            position: at(7, 0),
            high_water: Some(at(8, 2)),
        };
        assert_eq!(second, Some(want));
        assert_eq!(
            (cell.raw_read.load(SeqCst), cell.position.load()),
            (23, at(8, 3))
        );
    }

    #[test]
    fn only_what_is_new_is_forwarded() {
        let (cell, (mut reader, writer)) = (StreamCell::new(), io::pipe().expect("pipe"));
        let output = std::os::fd::AsRawFd::as_raw_fd(&writer);
        let piece = |position, high_water| Piece {
            bytes: 0..0,
            position,
            high_water,
        };
        forward(&cell, output, b"0123\n", &piece(at(0, 0), None));
        forward(&cell, output, b"23\n567", &piece(at(0, 2), None));
        forward(&cell, output, b"5", &piece(at(1, 0), None));
        forward(
            &cell,
            output,
            b"3\n567\n9",
            &piece(at(0, 3), Some(at(1, 2))),
        );
        let counters = (cell.high_water.load(), cell.dropped.load(SeqCst));
        assert_eq!(counters, (at(2, 1), 3 + 1 + 4));
        drop(writer);
        let output = io::read_to_string(&mut reader).expect("text");
        assert_eq!(output, "0123\n5677\n9");
    }
}
