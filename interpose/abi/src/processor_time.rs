//! Processor time and resource usage that the program sees.
//!
//! A replacement begins with small values of both. The difference to the values of the failed
//! process at the checkpoint is added, so that no value decreases for the program.

use core::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Number of values in a [`Usage`].
pub const USAGE_VALUES: usize = 16;
/// Values of getrusage(2): user and system time in microseconds, then 14 words of the structure.
pub type Usage = [i64; USAGE_VALUES];
/// Index of the largest resident set in a [`Usage`].
///
/// This value is a maximum; all others are sums.
pub const MAX_RESIDENT_SET: usize = 2;

/// Subject of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The process, all threads together.
    Process,
    /// Child processes that have terminated.
    Children,
    MainThread,
}

const SUBJECTS: usize = 3;
/// Number of values in a [`Reading`].
pub const READING_VALUES: usize = SUBJECTS * (1 + USAGE_VALUES);

/// Values of all subjects: the clock in nanoseconds (0 for the children), then the [`Usage`].
pub type Reading = [i64; READING_VALUES];

/// Returns the index of a subject's clock in a [`Reading`]; the usage follows.
pub const fn place(subject: Subject) -> usize {
    subject as usize * (1 + USAGE_VALUES)
}

const fn is_maximum(place: usize) -> bool {
    place % (1 + USAGE_VALUES) == 1 + MAX_RESIDENT_SET
}

/// Values of a failed process that its replacement adds to its own.
#[derive(Debug)]
pub struct CarriedTime {
    /// The replacement; zero in other processes. Child processes see the kernel's values.
    owner: AtomicI32,
    added: [AtomicI64; READING_VALUES],
}

impl CarriedTime {
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> CarriedTime {
        CarriedTime {
            owner: AtomicI32::new(0),
            added: [const { AtomicI64::new(0) }; READING_VALUES],
        }
    }

    /// Makes process `owner`, whose values are `owner` now, see at least the values `seen`.
    pub fn set(&self, owner: i32, own: &Reading, seen: &Reading) {
        for (place, added) in self.added.iter().enumerate() {
            let value = match is_maximum(place) {
                true => seen[place],
                false => (seen[place] - own[place]).max(0),
            };
            added.store(value, Ordering::Relaxed);
        }
        self.owner.store(owner, Ordering::Release);
    }

    /// Returns the process that sees other values than the kernel's; zero if there is none.
    pub fn owner(&self) -> i32 {
        self.owner.load(Ordering::Acquire)
    }

    /// Returns the value that the owner sees if the kernel's value at `place` is `own`.
    pub fn seen(&self, place: usize, own: i64) -> i64 {
        let added = self.added[place].load(Ordering::Relaxed);
        match is_maximum(place) {
            true => own.max(added),
            false => own + added,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time: i64, resident_set: i64) -> Reading {
        let is_maximum = |place| is_maximum(place);
        core::array::from_fn(|place| {
            if is_maximum(place) {
                resident_set
            } else {
                time
            }
        })
    }

    fn seen(carried: &CarriedTime, own: &Reading) -> Reading {
        core::array::from_fn(|place| carried.seen(place, own[place]))
    }

    #[test]
    fn values_never_decrease_in_replacements_of_replacements() {
        let carried = CarriedTime::new();
        assert_eq!(carried.owner(), 0);
        assert_eq!(seen(&carried, &reading(5, 7)), reading(5, 7));
        carried.set(20, &reading(5, 7), &reading(100, 50));
        assert_eq!(carried.owner(), 20);
        assert_eq!(seen(&carried, &reading(5, 7)), reading(100, 50));
        let later = seen(&carried, &reading(15, 60));
        assert_eq!(later, reading(110, 60));
        let next = CarriedTime::new();
        next.set(21, &reading(1, 2), &later);
        assert_eq!(seen(&next, &reading(2, 3)), reading(111, 60));
    }

    #[test]
    fn a_replacement_that_has_used_more_keeps_its_values() {
        let carried = CarriedTime::new();
        carried.set(20, &reading(200, 7), &reading(100, 5));
        assert_eq!(seen(&carried, &reading(200, 7)), reading(200, 7));
    }

    #[test]
    fn only_resident_sets_are_maxima() {
        for subject in [Subject::Process, Subject::Children, Subject::MainThread] {
            let start = place(subject);
            let maxima = (start..start + 1 + USAGE_VALUES).filter(|&place| is_maximum(place));
            assert!(maxima.eq([start + 1 + MAX_RESIDENT_SET]));
        }
    }
}
