//! Positions in a program's output, by line and byte.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Position in the output of a run without failures.
///
/// The documentation of the crate explains why lines are counted.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    bincode::Encode,
    bincode::Decode,
)]
pub struct Position {
    /// Number of complete lines before the position.
    pub line: u64,
    /// Number of bytes before the position in its line.
    pub column: u64,
}

impl Position {
    /// Beginning of the output.
    pub const START: Self = Self { line: 0, column: 0 };
    /// Position that no output reaches.
    pub const NEVER: Self = Self {
        line: u64::MAX,
        column: 0,
    };

    /// Returns the position behind `bytes`, which begin at this position.
    pub fn after(self, bytes: &[u8]) -> Self {
        match memchr::memrchr(b'\n', bytes) {
            None => Self {
                line: self.line,
                column: self.column + bytes.len() as u64,
            },
            Some(last) => Self {
                line: self.line + memchr::memchr_iter(b'\n', bytes).count() as u64,
                column: (bytes.len() - last - 1) as u64,
            },
        }
    }

    /// Returns the number of `bytes`, beginning here, that are below the high-water mark `mark`.
    ///
    /// All bytes of the lines before the mark's line are below the mark. In the mark's line, the
    /// number of bytes below the mark is the column of the mark. The newline of that line is never
    /// below the mark, even if the line is shorter than the column.
    pub fn below(self, mark: Self, bytes: &[u8]) -> usize {
        let (line_start, column) = match self.line.cmp(&mark.line) {
            Order::Greater => return 0,
            Order::Equal => (0, self.column),
            Order::Less => {
                let lines = usize::try_from(mark.line - self.line).unwrap_or(usize::MAX);
                match memchr::memchr_iter(b'\n', bytes).nth(lines - 1) {
                    None => return bytes.len(),
                    Some(end) => (end + 1, 0),
                }
            }
        };
        let line = &bytes[line_start..];
        let length = memchr::memchr(b'\n', line).unwrap_or(line.len());
        line_start
            + length.min(
                mark.column
                    .saturating_sub(column)
                    .try_into()
                    .unwrap_or(usize::MAX),
            )
    }
}

/// A [`Position`] in shared memory.
///
/// The two words are not loaded or stored together. `seq` of the stream protects a position that
/// may change between the loads.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PositionCell {
    line: AtomicU64,
    column: AtomicU64,
}

impl PositionCell {
    pub(super) const fn new() -> Self {
        Self {
            line: AtomicU64::new(0),
            column: AtomicU64::new(0),
        }
    }

    pub(super) fn load(&self) -> Position {
        Position {
            line: self.line.load(SeqCst),
            column: self.column.load(SeqCst),
        }
    }

    pub(super) fn store(&self, position: Position) {
        self.line.store(position.line, SeqCst);
        self.column.store(position.column, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64, column: u64) -> Position {
        Position { line, column }
    }

    #[test]
    fn positions_add_up() {
        let text = b"one\ntwo\n\nfour";
        assert_eq!(Position::START.after(text), at(3, 4));
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            assert_eq!(
                at(5, 7).after(first).after(second),
                at(5, 7).after(text),
                "cut at {cut}"
            );
        }
    }

    /// Exactly the bytes before the mark are below it if the output is repeated unchanged.
    #[test]
    fn repeated_bytes_are_below() {
        let text = b"one\ntwo\n\nfour\n";
        for shown in 0..=text.len() {
            let mark = Position::START.after(&text[..shown]);
            for from in 0..=text.len() {
                let position = Position::START.after(&text[..from]);
                let want = shown.saturating_sub(from);
                assert_eq!(
                    position.below(mark, &text[from..]),
                    want,
                    "shown {shown}, from {from}"
                );
            }
        }
    }

    #[test]
    fn lines_of_another_length_are_below_as_a_whole() {
        let shown = b"time 12.75 s\ntotal 7\nti";
        let again = b"time 9 s\ntotal 7\ntime 3\nend\n";
        let mark = Position::START.after(shown);
        assert_eq!(&again[Position::START.below(mark, again)..], b"me 3\nend\n");
    }

    #[test]
    fn the_end_of_the_marks_line_is_never_below() {
        let mark = Position::START.after(b"a\nlong line");
        assert_eq!(Position::START.below(mark, b"a\nshort\nnext\n"), 7);
        assert_eq!(at(1, 5).below(mark, b"\nnext\n"), 0);
        assert_eq!(at(1, 5).below(Position::NEVER, b"\nnext\n"), 6);
    }
}
