//! Forwarding of one stream.

use super::ledger::{IDLE, POSTED, StreamCell, StreamState};
use super::position::Position;
use super::sys;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Most bytes that are read at once: the usual capacity of a pipe (pipe(7)).
const CHUNK: usize = 64 * 1024;

/// A part of a chunk whose bytes have contiguous positions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    bytes: Range<usize>,
    /// Position of the first byte.
    place: Position,
    /// New high-water mark that is set before this piece.
    high_water: Option<Position>,
}

enum Taken {
    /// Bytes that were read, split where a command applies.
    Pieces(Piece, Option<Piece>),
    Nothing,
    End,
}

/// Forwards `input` to `output` until its end, and updates the counters in `cell`.
pub(super) fn pump(cell: &StreamCell, input: RawFd, output: RawFd) {
    let mut buffer = vec![0; CHUNK];
    sys::set_nonblocking(input);
    loop {
        if sys::poll(input, libc::POLLIN, None).is_err() {
            // poll(2) has no memory: retry after a pause instead of spinning.
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

/// Reads once; `seq` is odd until the counters are consistent with the read again.
fn take(cell: &StreamCell, input: RawFd, buffer: &mut [u8]) -> Taken {
    let seq = cell.seq.load(Relaxed);
    cell.seq.store(seq.wrapping_add(1), SeqCst);
    let taken = match sys::read(input, buffer) {
        Ok(0) => end(cell),
        Ok(count) => account(cell, &buffer[..count]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Taken::Nothing
        }
        Err(_) => end(cell),
    };
    cell.seq.store(seq.wrapping_add(2), SeqCst);
    taken
}

/// Advances the counters by the bytes read, and applies a command among them.
fn account(cell: &StreamCell, bytes: &[u8]) -> Taken {
    let (raw, place) = (cell.raw_read.load(Relaxed), cell.place.load());
    let after = raw + bytes.len() as u64;
    cell.raw_read.store(after, SeqCst);
    let due = cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) < after;
    if !due {
        cell.place.store(place.after(bytes));
        let whole = Piece {
            bytes: 0..bytes.len(),
            place,
            high_water: None,
        };
        return Taken::Pieces(whole, None);
    }
    let (second_place, high_water, split) = apply(cell, raw);
    cell.place.store(second_place.after(&bytes[split..]));
    let first = Piece {
        bytes: 0..split,
        place,
        high_water: None,
    };
    let second = Piece {
        bytes: split..bytes.len(),
        place: second_place,
        high_water,
    };
    Taken::Pieces(first, Some(second))
}

/// Removes the command; returns its position, its mark, and its offset from `raw`.
fn apply(cell: &StreamCell, raw: u64) -> (Position, Option<Position>, usize) {
    let at = cell.command_at.load(SeqCst);
    let place = cell.command_place.load();
    let high_water = (cell.command_marks.load(SeqCst) != 0).then(|| cell.command_high_water.load());
    cell.command.store(IDLE, SeqCst);
    (place, high_water, at.saturating_sub(raw) as usize)
}

/// Applies a command behind the last byte, because another process may continue from here.
fn end(cell: &StreamCell) -> Taken {
    let raw = cell.raw_read.load(Relaxed);
    if cell.command.load(SeqCst) == POSTED && cell.command_at.load(SeqCst) <= raw {
        let (place, high_water, _) = apply(cell, raw);
        cell.place.store(place);
        if let Some(mark) = high_water {
            cell.high_water.store(mark);
        }
    }
    Taken::End
}

/// Forwards the bytes of a piece that were not forwarded before.
fn settle(cell: &StreamCell, output: RawFd, bytes: &[u8], piece: &Piece) {
    if let Some(mark) = piece.high_water {
        cell.high_water.store(mark);
    }
    let (seen, mut rest) = bytes.split_at(piece.place.below(cell.high_water.load(), bytes));
    cell.dropped.fetch_add(seen.len() as u64, SeqCst);
    let mut at = piece.place.after(seen);
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
        if gone > 0 {
            at = at.after(&rest[..gone]);
            cell.high_water.store(at);
        }
        rest = &rest[gone..];
    }
    cell.settled.fetch_add(bytes.len() as u64, SeqCst);
}

/// Counts bytes that the real descriptor does not accept.
///
/// The rank must not block on them: they are lost, as without a relay, and the next piece is tried
/// again.
fn refused(cell: &StreamCell, error: &io::Error, count: usize) -> usize {
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

    fn post(cell: &StreamCell, raw: u64, place: Position, high_water: Option<Position>) {
        cell.command_at.store(raw, SeqCst);
        cell.command_place.store(place);
        cell.command_high_water
            .store(high_water.unwrap_or_default());
        cell.command_marks
            .store(high_water.is_some().into(), SeqCst);
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
        post(&cell, 10, at(0, 4), None);
        let (first, second) = pieces(account(&cell, b"01234567\n9"));
        assert_eq!(
            (first.bytes, second),
            (0..10, None),
            "byte 10 is not in the chunk"
        );
        assert_eq!(cell.command.load(SeqCst), POSTED);
        let (first, second) = pieces(account(&cell, b"45678"));
        assert_eq!((first.bytes, first.place), (0..0, at(1, 1)));
        let want = Piece {
            bytes: 0..5,
            place: at(0, 4),
            high_water: None,
        };
        assert_eq!(second, Some(want));
        assert_eq!(
            (cell.command.load(SeqCst), cell.place.load()),
            (IDLE, at(0, 9))
        );
        post(&cell, 18, at(7, 0), Some(at(8, 2)));
        let (first, second) = pieces(account(&cell, b"012a\ncde"));
        assert_eq!((first.bytes, first.place), (0..3, at(0, 9)));
        let want = Piece {
            bytes: 3..8,
            place: at(7, 0),
            high_water: Some(at(8, 2)),
        };
        assert_eq!(second, Some(want));
        assert_eq!(
            (cell.raw_read.load(SeqCst), cell.place.load()),
            (23, at(8, 3))
        );
    }

    #[test]
    fn only_what_is_new_is_forwarded() {
        let (cell, (mut reader, writer)) = (StreamCell::new(), io::pipe().expect("pipe"));
        let output = std::os::fd::AsRawFd::as_raw_fd(&writer);
        let piece = |place, high_water| Piece {
            bytes: 0..0,
            place,
            high_water,
        };
        settle(&cell, output, b"0123\n", &piece(at(0, 0), None));
        settle(&cell, output, b"23\n567", &piece(at(0, 2), None));
        settle(&cell, output, b"5", &piece(at(1, 0), None));
        settle(
            &cell,
            output,
            b"3\n567\n9",
            &piece(at(0, 3), Some(at(1, 2))),
        );
        let books = (cell.high_water.load(), cell.dropped.load(SeqCst));
        assert_eq!(books, (at(2, 1), 3 + 1 + 4));
        drop(writer);
        let shown = io::read_to_string(&mut reader).expect("text");
        assert_eq!(shown, "0123\n5677\n9");
    }
}
