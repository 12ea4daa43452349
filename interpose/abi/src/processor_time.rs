//! Processor time and resource usage that the program sees.
//!
//! The kernel's values of a replacement begin near zero, but the program must not see a value
//! decrease. The replacement therefore adds a difference to each later result: the failed process's
//! value at the checkpoint, less its own value at the takeover. For example, a process that had
//! used 100 s at the checkpoint is replaced by one that has used 5 s: 95 s are added.

use core::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Number of values in a [`Usage`].
pub const USAGE_VALUES: usize = 16;
/// Values of getrusage(2): user and system time in microseconds, then 14 words of the structure.
pub type Usage = [i64; USAGE_VALUES];
/// Index of the largest resident set (ru_maxrss) in a [`Usage`].
///
/// This value is a maximum over time; all others are sums.
pub const MAX_RESIDENT_SET: usize = 2;

/// Processes or thread whose usage a value counts.
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

/// Values of all subjects at one time, in the order of [`Subject`].
///
/// Each subject has its processor time in nanoseconds (0 for the children), then its [`Usage`].
pub type Reading = [i64; READING_VALUES];

/// Returns the index of a subject's processor time in a [`Reading`]; the usage follows.
pub const fn time_index(subject: Subject) -> usize {
    subject as usize * (1 + USAGE_VALUES)
}

/// Returns true for the indices in a [`Reading`] of values that are maxima over time.
const fn is_maximum(index: usize) -> bool {
    index % (1 + USAGE_VALUES) == 1 + MAX_RESIDENT_SET
}

/// Values of a failed process that its replacement adds to its own.
#[derive(Debug)]
pub struct CarriedTime {
    /// Number of the replacement's process; zero in other processes.
    ///
    /// Child processes, which have a copy of this structure, see the kernel's values.
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

    /// Makes process `owner`, whose values are `own` now, see at least the values `seen`.
    pub fn set(&self, owner: i32, own: &Reading, seen: &Reading) {
        for (index, added) in self.added.iter().enumerate() {
            let value = match is_maximum(index) {
                true => seen[index],
                false => (seen[index] - own[index]).max(0),
            };
            added.store(value, Ordering::Relaxed);
        }
        self.owner.store(owner, Ordering::Release);
    }

    /// Returns the process that sees other values than the kernel's; zero if unset.
    pub fn owner(&self) -> i32 {
        self.owner.load(Ordering::Acquire)
    }

    /// Returns the value that the owner sees if the kernel's value at `index` is `own`.
    pub fn seen(&self, index: usize, own: i64) -> i64 {
        let added = self.added[index].load(Ordering::Relaxed);
        match is_maximum(index) {
            true => own.max(added),
            false => own + added,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time: i64, resident_set: i64) -> Reading {
        core::array::from_fn(|index| {
            if is_maximum(index) {
                resident_set
            } else {
                time
            }
        })
    }

    fn seen(carried: &CarriedTime, own: &Reading) -> Reading {
        core::array::from_fn(|index| carried.seen(index, own[index]))
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
            let start = time_index(subject);
            let maxima = (start..start + 1 + USAGE_VALUES).filter(|&index| is_maximum(index));
            assert!(maxima.eq([start + 1 + MAX_RESIDENT_SET]));
        }
    }
}
