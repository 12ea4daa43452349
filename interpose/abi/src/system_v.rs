//! System V semaphore sets and message queues of the program.
//!
//! A rollback restores an object that was removed after the checkpoint. The kernel gives the new
//! object another identifier. The program keeps the old identifier, and the preload library passes
//! the *real* one to the kernel.

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

/// Maximum number of objects that exist together.
pub const MAX_OBJECTS: usize = 256;

/// A set of semaphores (semget(2)).
pub const SEMAPHORES: i64 = 1 << 32;
/// A message queue (msgget(2)).
pub const MESSAGES: i64 = 2 << 32;

/// The process has created the object, which has no key (IPC_PRIVATE).
pub const CREATED: u32 = 1;
/// The process has used SEM_UNDO (semop(2)).
pub const UNDO: u32 = 2;
/// Another process has used the object.
pub const FOREIGN: u32 = 4;

/// Key that marks a slot while it is being filled.
const RESERVED: i64 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemVObject {
    /// [`SEMAPHORES`] or [`MESSAGES`].
    pub kind: i64,
    /// Identifier that the program sees.
    pub identifier: i32,
    /// Identifier in the kernel.
    pub real: i32,
    /// [`CREATED`], [`UNDO`] and [`FOREIGN`].
    pub flags: u32,
}

#[derive(Debug)]
struct Slot {
    /// Kind and identifier that the program sees; zero if the slot is free.
    key: AtomicI64,
    real: AtomicI32,
    flags: AtomicU32,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            key: AtomicI64::new(0),
            real: AtomicI32::new(0),
            flags: AtomicU32::new(0),
        }
    }

    fn object(&self) -> Option<SystemVObject> {
        let key = self.key.load(Ordering::Acquire);
        (key > 0).then(|| SystemVObject {
            kind: key & !i64::from(u32::MAX),
            identifier: key as u32 as i32,
            real: self.real.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
        })
    }
}

fn key(kind: i64, identifier: i32) -> i64 {
    kind | i64::from(identifier as u32)
}

/// Objects that the program has created or used.
#[derive(Debug)]
pub struct SystemVObjects {
    slots: [Slot; MAX_OBJECTS],
    /// Number of slots up to the last one that has ever been used.
    used: AtomicU32,
    /// Nonzero if an object has found no free slot.
    has_overflowed: AtomicU32,
}

impl SystemVObjects {
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> SystemVObjects {
        SystemVObjects {
            slots: [const { Slot::free() }; MAX_OBJECTS],
            used: AtomicU32::new(0),
            has_overflowed: AtomicU32::new(0),
        }
    }

    fn slots(&self) -> &[Slot] {
        &self.slots[..self.used.load(Ordering::Acquire) as usize]
    }

    fn find(&self, matches: impl Fn(&SystemVObject) -> bool) -> Option<(&Slot, SystemVObject)> {
        let slots = self.slots().iter();
        slots
            .filter_map(|slot| Some((slot, slot.object()?)))
            .find(|(_, object)| matches(object))
    }

    fn find_by_identifier(&self, kind: i64, identifier: i32) -> Option<(&Slot, SystemVObject)> {
        self.find(|object| object.kind == kind && object.identifier == identifier)
    }

    pub fn all(&self) -> impl Iterator<Item = SystemVObject> {
        self.slots().iter().filter_map(Slot::object)
    }

    /// True if an object has found no free slot: the table lacks the object.
    pub fn has_overflowed(&self) -> bool {
        self.has_overflowed.load(Ordering::Relaxed) != 0
    }

    pub fn insert(&self, object: SystemVObject) {
        let reserve = |slot: &&Slot| {
            let exchange =
                slot.key
                    .compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed);
            exchange.is_ok()
        };
        let Some((index, slot)) = (0..).zip(&self.slots).find(|(_, slot)| reserve(slot)) else {
            self.has_overflowed.store(1, Ordering::Relaxed);
            return;
        };
        slot.real.store(object.real, Ordering::Relaxed);
        slot.flags.store(object.flags, Ordering::Relaxed);
        slot.key
            .store(key(object.kind, object.identifier), Ordering::Release);
        self.used.fetch_max(index + 1, Ordering::Release);
    }

    /// Adds an object that the program has opened, and returns the program's identifier.
    ///
    /// `flags` is [`CREATED`] or zero.
    pub fn open(&self, kind: i64, real: i32, flags: u32) -> i32 {
        let has_real = |object: &SystemVObject| object.kind == kind && object.real == real;
        if let Some((slot, object)) = self.find(has_real) {
            if flags & CREATED != 0 {
                slot.flags.store(flags, Ordering::Relaxed);
            }
            return object.identifier;
        }
        let is_taken = |identifier: i32| self.find_by_identifier(kind, identifier).is_some();
        // The program uses the kernel's identifier, unless the program already uses this
        // identifier for another object. The kernel assigns high identifiers last, so the search
        // for another identifier begins with the highest.
        let others = (0..=i32::MAX).rev();
        let mut candidates = core::iter::once(real).chain(others);
        let identifier = candidates.find(|&id| !is_taken(id)).unwrap_or(real);
        self.insert(SystemVObject {
            kind,
            identifier,
            real,
            flags,
        });
        identifier
    }

    /// Returns the real identifier for a call, and sets `flags` of the object.
    ///
    /// Adds the object if this process has not opened it.
    pub fn real_for_call(&self, kind: i64, identifier: i32, flags: u32) -> i32 {
        match self.find_by_identifier(kind, identifier) {
            Some((slot, object)) => {
                slot.flags.fetch_or(flags, Ordering::Relaxed);
                object.real
            }
            None if identifier >= 0 => {
                self.insert(SystemVObject {
                    kind,
                    identifier,
                    real: identifier,
                    flags,
                });
                identifier
            }
            None => identifier,
        }
    }

    /// Returns the real identifier of an object in the table.
    pub fn real(&self, kind: i64, identifier: i32) -> Option<i32> {
        Some(self.find_by_identifier(kind, identifier)?.1.real)
    }

    /// Removes an object that the program has deleted.
    pub fn remove(&self, kind: i64, identifier: i32) {
        if let Some((slot, _)) = self.find_by_identifier(kind, identifier) {
            slot.key.store(0, Ordering::Release);
        }
    }

    pub fn clear(&self) {
        for slot in self.slots() {
            slot.key.store(0, Ordering::Release);
        }
        self.has_overflowed.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_remembered_once() {
        let objects = SystemVObjects::new();
        for real in [7, 65536, 7] {
            assert_eq!(objects.open(SEMAPHORES, real, CREATED), real);
        }
        objects.open(MESSAGES, 7, 0);
        let found = objects
            .all()
            .map(|object| (object.kind, object.real, object.flags));
        let expected = [
            (SEMAPHORES, 7, CREATED),
            (SEMAPHORES, 65536, CREATED),
            (MESSAGES, 7, 0),
        ];
        assert!(found.eq(expected) && !objects.has_overflowed());
        objects.remove(SEMAPHORES, 7);
        assert_eq!(objects.all().count(), 2);
        for real in 0..MAX_OBJECTS as i32 {
            objects.open(SEMAPHORES, real, CREATED);
        }
        assert!(objects.has_overflowed());
    }

    /// Returns a table with one set: 3 for the program, 8 in the kernel.
    fn renumbered() -> SystemVObjects {
        let objects = SystemVObjects::new();
        objects.insert(SystemVObject {
            kind: SEMAPHORES,
            identifier: 3,
            real: 8,
            flags: CREATED,
        });
        objects
    }

    #[test]
    fn calls_use_the_real_identifier() {
        let objects = renumbered();
        assert_eq!(objects.real_for_call(SEMAPHORES, 3, UNDO), 8);
        assert_eq!(objects.real(MESSAGES, 3), None);
        assert_eq!(objects.real_for_call(MESSAGES, 3, 0), 3);
        assert_eq!(objects.real(SEMAPHORES, 3), Some(8));
        assert_eq!(objects.open(SEMAPHORES, 8, 0), 3);
        let flags: u32 = objects.all().map(|object| object.flags).sum();
        assert_eq!(flags, CREATED | UNDO);
    }

    #[test]
    fn a_real_identifier_that_is_taken_gets_another_one() {
        let objects = renumbered();
        let identifier = objects.open(SEMAPHORES, 3, CREATED);
        assert!(identifier != 3 && identifier >= 0);
        assert_eq!(objects.real_for_call(SEMAPHORES, identifier, 0), 3);
        assert_eq!(objects.real_for_call(SEMAPHORES, 3, 0), 8);
    }
}
