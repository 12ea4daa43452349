//! Block of strings and pointers for the environment or the arguments of an execution.
#![allow(unsafe_code)]

use crate::sys;
use core::ffi::c_char;

/// Variable that pads an environment.
pub const PAD_VARIABLE: &[u8] = b"UNDERSTUDY_PAD=";

/// The number of strings of an environment is padded to a multiple of this number.
const COUNT_STEP: usize = 300;
/// The size of an environment in bytes is padded to a multiple of this number.
const SIZE_STEP: usize = 48 << 10;

/// Memory for strings and their pointers.
///
/// A block is created for each execution and never unmapped.
pub struct BlockBuilder {
    pointers: *mut *const c_char,
    count: usize,
    text: *mut u8,
    used: usize,
    capacity: usize,
}

impl BlockBuilder {
    /// Reserves memory for `count` strings of `bytes` bytes in total, and for their padding.
    pub fn new(count: usize, bytes: usize) -> Option<BlockBuilder> {
        let slots = (count + 2 * COUNT_STEP) * 8;
        let capacity = bytes + 4 * SIZE_STEP;
        let memory = sys::map_anonymous(0, slots + capacity, 0).ok()?;
        Some(BlockBuilder {
            pointers: memory as *mut _,
            count: 0,
            text: (memory + slots) as *mut u8,
            used: 0,
            capacity,
        })
    }

    /// Adds one string that consists of `parts`.
    pub fn add(&mut self, parts: &[&[u8]]) {
        self.add_all(parts.iter().copied());
    }

    /// Adds one string that consists of the parts of an iterator.
    pub fn add_all<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]> + Clone) {
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        assert!(self.used + length < self.capacity);
        // SAFETY: the assertion bounds the string. The array has space for the strings that the
        // caller of `new` has counted, and for two steps more, which exceeds padding and additions.
        unsafe {
            let start = self.text.add(self.used);
            let mut end = start;
            for part in parts {
                core::ptr::copy_nonoverlapping(part.as_ptr(), end, part.len());
                end = end.add(part.len());
            }
            end.write(0);
            self.pointers.add(self.count).write(start.cast());
        }
        self.count += 1;
        self.used += length + 1;
    }

    /// Pads the number of strings and their total size to multiples of the steps.
    ///
    /// Number and size include the terminators. Ranks with slightly different environments thus
    /// have equal numbers and sizes, unless a multiple lies between their values.
    pub fn pad(&mut self) {
        let target_count = (self.count + 1).next_multiple_of(COUNT_STEP);
        while self.count + 1 < target_count {
            self.add(&[b"_="]);
        }
        let left = (self.used + PAD_VARIABLE.len() + 1).next_multiple_of(SIZE_STEP) - self.used;
        let filler = [b'.'; SIZE_STEP];
        self.add(&[PAD_VARIABLE, &filler[..left - PAD_VARIABLE.len() - 1]]);
    }

    /// Returns the null-terminated array.
    pub fn finish(self) -> *const *const c_char {
        // SAFETY: the array has space for more pointers than are ever added (`add_all`).
        unsafe { self.pointers.add(self.count).write(core::ptr::null()) };
        self.pointers
    }
}
