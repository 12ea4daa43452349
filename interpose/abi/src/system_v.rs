//! System V semaphore sets and message queues of the program.
//!
//! A rollback creates a new object, with another identifier, for an object that was removed after
//! the checkpoint. The program keeps its identifier: calls are made with the real one.

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

/// Maximum number of objects that exist together.
pub const MAX_OBJECTS: usize = 256;

/// A set of semaphores (semget(2)).
pub const SEMAPHORES: i64 = 1 << 32;
/// A message queue (msgget(2)).
pub const MESSAGES: i64 = 2 << 32;

/// The process has created the object.
pub const CREATED: u32 = 1;
/// The process has used SEM_UNDO (semop(2)).
pub const UNDO: u32 = 2;
/// Another process has used the object.
pub const FOREIGN: u32 = 4;

/// Name that marks a slot while it is being filled.
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
    /// Kind and identifier; zero if the slot is free.
    name: AtomicI64,
    real: AtomicI32,
    flags: AtomicU32,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            name: AtomicI64::new(0),
            real: AtomicI32::new(0),
            flags: AtomicU32::new(0),
        }
    }

    fn object(&self) -> Option<SystemVObject> {
        let name = self.name.load(Ordering::Acquire);
        (name > 0).then(|| SystemVObject {
            kind: name & !i64::from(u32::MAX),
            identifier: name as u32 as i32,
            real: self.real.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
        })
    }
}

fn name(kind: i64, identifier: i32) -> i64 {
    kind | i64::from(identifier as u32)
}

/// Objects that the program has created or used.
#[derive(Debug)]
pub struct SystemVObjects {
    slots: [Slot; MAX_OBJECTS],
    /// Number of slots, from the first one on, that have been used.
    used: AtomicU32,
    /// Nonzero if there were more objects than slots.
    has_more: AtomicU32,
}

impl SystemVObjects {
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> SystemVObjects {
        SystemVObjects {
            slots: [const { Slot::free() }; MAX_OBJECTS],
            used: AtomicU32::new(0),
            has_more: AtomicU32::new(0),
        }
    }

    fn slots(&self) -> &[Slot] {
        &self.slots[..self.used.load(Ordering::Acquire) as usize]
    }

    fn find(&self, is_it: impl Fn(&SystemVObject) -> bool) -> Option<(&Slot, SystemVObject)> {
        let all = self.slots().iter();
        all.filter_map(|slot| Some((slot, slot.object()?)))
            .find(|(_, object)| is_it(object))
    }

    fn find_by_identifier(&self, kind: i64, identifier: i32) -> Option<(&Slot, SystemVObject)> {
        self.find(|it| it.kind == kind && it.identifier == identifier)
    }

    pub fn all(&self) -> impl Iterator<Item = SystemVObject> {
        self.slots().iter().filter_map(Slot::object)
    }

    /// True if the program has had more objects than slots.
    pub fn has_more(&self) -> bool {
        self.has_more.load(Ordering::Relaxed) != 0
    }

    pub fn insert(&self, object: SystemVObject) {
        let is_free = |slot: &&Slot| {
            let taken =
                slot.name
                    .compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let Some((place, slot)) = (0..).zip(&self.slots).find(|(_, slot)| is_free(slot)) else {
            self.has_more.store(1, Ordering::Relaxed);
            return;
        };
        slot.real.store(object.real, Ordering::Relaxed);
        slot.flags.store(object.flags, Ordering::Relaxed);
        slot.name
            .store(name(object.kind, object.identifier), Ordering::Release);
        self.used.fetch_max(place + 1, Ordering::Release);
    }

    /// Adds an object that the program has opened, and returns the program's identifier.
    ///
    /// `flags` is [`CREATED`] or zero.
    pub fn open(&self, kind: i64, real: i32, flags: u32) -> i32 {
        let has_real = |it: &SystemVObject| it.kind == kind && it.real == real;
        if let Some((slot, object)) = self.find(has_real) {
            if flags & CREATED != 0 {
                slot.flags.store(flags, Ordering::Relaxed);
            }
            return object.identifier;
        }
        let is_taken = |identifier: i32| self.find_by_identifier(kind, identifier).is_some();
        // The kernel's identifier may be the one that the program uses for another object.
        let others = (0..=i32::MAX).rev();
        let mut candidates = core::iter::once(real).chain(others);
        let identifier = candidates.find(|&it| !is_taken(it)).unwrap_or(real);
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
            slot.name.store(0, Ordering::Release);
        }
    }

    pub fn clear(&self) {
        for slot in self.slots() {
            slot.name.store(0, Ordering::Release);
        }
        self.has_more.store(0, Ordering::Relaxed);
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
        let found = objects.all().map(|it| (it.kind, it.real, it.flags));
        let expected = [
            (SEMAPHORES, 7, CREATED),
            (SEMAPHORES, 65536, CREATED),
            (MESSAGES, 7, 0),
        ];
        assert!(found.eq(expected) && !objects.has_more());
        objects.remove(SEMAPHORES, 7);
        assert_eq!(objects.all().count(), 2);
        for real in 0..MAX_OBJECTS as i32 {
            objects.open(SEMAPHORES, real, CREATED);
        }
        assert!(objects.has_more());
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
        let flags: u32 = objects.all().map(|it| it.flags).sum();
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
