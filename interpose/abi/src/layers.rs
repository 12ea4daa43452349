//! Descriptors of the runtime and MPI sides.
//!
//! A program that closes all descriptors from some number on passes them over.

use crate::address_map::RUNTIME_FD_BASE;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = 32;

/// Set of descriptors: a bit for each from [`RUNTIME_FD_BASE`] on.
///
/// Descriptors behind the last bit count as the program's.
#[derive(Debug)]
pub struct LayersDescriptors {
    words: [AtomicU64; WORDS],
}

impl LayersDescriptors {
    /// Notes no descriptor.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> LayersDescriptors {
        LayersDescriptors {
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// The word and the bit of a descriptor, if it has one.
    fn bit(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let index = usize::try_from(fd.checked_sub(RUNTIME_FD_BASE)?).ok()?;
        let word = self.words.get(index / WORD_BITS)?;
        Some((word, 1 << (index % WORD_BITS)))
    }

    /// Adds a descriptor that has been made.
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

    /// Returns true for a descriptor that was added.
    pub fn contains(&self, fd: c_int) -> bool {
        self.bit(fd)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// The first descriptor behind the last bit.
    pub const END: c_int = RUNTIME_FD_BASE + (WORDS * WORD_BITS) as c_int;
}
