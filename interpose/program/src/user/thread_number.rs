//! Numbers of threads, which differ between processes.
#![allow(unsafe_code)]

/// Number of a thread (gettid(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ThreadNumber(pub(super) u32);

impl ThreadNumber {
    /// Returns the number of the calling thread.
    pub fn own() -> Self {
        // SAFETY: gettid(2) has no arguments and accesses no memory.
        Self(unsafe { libc::gettid() } as u32)
    }

    /// Returns the number of the main thread.
    pub fn main() -> Self {
        Self(std::process::id())
    }

    /// Returns the thread with this number.
    pub const fn new(number: i32) -> Self {
        Self(number as u32)
    }

    /// Returns the number.
    pub const fn get(self) -> i32 {
        self.0 as i32
    }
}

/// Number of a thread in the image, and its number in this process.
pub type ThreadNumberChange = (ThreadNumber, ThreadNumber);
