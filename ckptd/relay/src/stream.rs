//! The output streams of a rank.

use std::fmt;

/// An output stream of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Out,
    Err,
}

impl Stream {
    pub const BOTH: [Self; 2] = [Self::Out, Self::Err];

    /// Returns the index in arrays with one element per stream.
    pub fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Out => "standard output",
            Self::Err => "standard error",
        })
    }
}

/// Number of bytes that have passed, or will pass, through the pipe of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RawCount(pub u64);
