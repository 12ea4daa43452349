//! Set of the descriptors of the runtime and MPI sides.
//!
//! The preload library excludes these descriptors if the program closes a range of descriptors, as
//! closefrom(3) does.

use crate::address_map::RUNTIME_FD_BASE;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = 32;

/// Set of descriptors, with one bit for each number from [`RUNTIME_FD_BASE`] on.
///
/// Descriptors from [`ReservedDescriptors::END`] on have no bit, and count as the program's.
#[derive(Debug)]
pub struct ReservedDescriptors {
    words: [AtomicU64; WORDS],
}

impl ReservedDescriptors {
    /// Creates an empty set.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> ReservedDescriptors {
        ReservedDescriptors {
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// Returns the word and the mask of a descriptor's bit.
    fn bit(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let index = usize::try_from(fd.checked_sub(RUNTIME_FD_BASE)?).ok()?;
        let word = self.words.get(index / WORD_BITS)?;
        Some((word, 1 << (index % WORD_BITS)))
    }

    /// Adds a new descriptor.
    pub fn add(&self, fd: c_int) {
        if let Some((word, bit)) = self.bit(fd) {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Removes a descriptor that is about to be closed.
    pub fn remove(&self, fd: c_int) {
        if let Some((word, bit)) = self.bit(fd) {
            word.fetch_and(!bit, Relaxed);
        }
    }

    /// Returns true if the set contains the descriptor.
    pub fn contains(&self, fd: c_int) -> bool {
        self.bit(fd)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// First descriptor past the last bit.
    pub const END: c_int = RUNTIME_FD_BASE + (WORDS * WORD_BITS) as c_int;
}
