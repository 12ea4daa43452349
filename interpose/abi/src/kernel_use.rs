//! Calls of the program that leave state in the kernel.
//!
//! The runtime looks for that state only after such a call.

use core::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Number of System V objects that are remembered.
pub const MAX_OBJECTS: usize = 256;

/// A set of semaphores (semget(2)).
pub const SEMAPHORES: i64 = 1 << 32;
/// A message queue (msgget(2)).
pub const MESSAGES: i64 = 2 << 32;

/// Counters and identifiers, written by the preload library.
#[derive(Debug)]
pub struct KernelUse {
    /// Calls that set attributes of mappings: madvise(2), mlock(2).
    pub advice: AtomicU32,
    /// Calls that concern huge pages.
    pub huge_pages: AtomicU32,
    /// Calls that install guard pages.
    pub guards: AtomicU32,
    /// Calls that set resource limits.
    pub limits: AtomicU32,
    /// System V objects: their number, and the kind and identifier of each.
    object_count: AtomicU32,
    objects: [AtomicI64; MAX_OBJECTS],
}

impl KernelUse {
    /// Creates counters of zero.
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> KernelUse {
        KernelUse {
            advice: AtomicU32::new(0),
            huge_pages: AtomicU32::new(0),
            guards: AtomicU32::new(0),
            limits: AtomicU32::new(0),
            object_count: AtomicU32::new(0),
            objects: [const { AtomicI64::new(0) }; MAX_OBJECTS],
        }
    }

    /// Remembers an object that the program has made or opened.
    pub fn add_object(&self, kind: i64, identifier: i32) {
        let object = kind | i64::from(identifier as u32);
        let is_known = |known: &AtomicI64| known.load(Ordering::Relaxed) == object;
        if self.objects.iter().any(is_known) {
            return;
        }
        let place = self.object_count.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(free) = self.objects.get(place) {
            free.store(object, Ordering::Release);
        }
    }

    /// Returns the objects, by kind and identifier, and whether there were more.
    pub fn objects(&self) -> (impl Iterator<Item = (i64, i32)>, bool) {
        let count = self.object_count.load(Ordering::Relaxed) as usize;
        let all = self.objects.iter().take(count);
        let object = |known: &AtomicI64| known.load(Ordering::Acquire);
        let parts = |object: i64| (object & !i64::from(u32::MAX), object as u32 as i32);
        (all.map(object).map(parts), count > MAX_OBJECTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_remembered_once() {
        let kernel_use = KernelUse::new();
        for identifier in [7, 65536, 7] {
            kernel_use.add_object(SEMAPHORES, identifier);
        }
        kernel_use.add_object(MESSAGES, 7);
        let (objects, has_more) = kernel_use.objects();
        let expected = [(SEMAPHORES, 7), (SEMAPHORES, 65536), (MESSAGES, 7)];
        assert!(objects.eq(expected) && !has_more);
        for identifier in 0..MAX_OBJECTS as i32 {
            kernel_use.add_object(SEMAPHORES, identifier);
        }
        assert!(kernel_use.objects().1);
    }
}
