//! Process number that the program sees.

use core::sync::atomic::{AtomicI32, Ordering};

/// Process number (getpid(2)) that a replacement keeps from the failed process.
#[derive(Debug)]
pub struct SeenNumber {
    seen: AtomicI32,
    /// Process that sees this number; a process with another number is its child.
    owner: AtomicI32,
}

impl SeenNumber {
    /// Creates an entry without a replaced number.
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> SeenNumber {
        SeenNumber {
            seen: AtomicI32::new(0),
            owner: AtomicI32::new(0),
        }
    }

    /// Makes process `owner` see the number `seen`.
    pub fn set(&self, own: i32, seen: i32) {
        self.seen.store(seen, Ordering::Relaxed);
        self.owner.store(own, Ordering::Release);
    }

    /// Returns the number that process `number` sees.
    pub fn of(&self, number: i32) -> i32 {
        let is_own = self.owner.load(Ordering::Acquire) == number;
        let seen = self.seen.load(Ordering::Relaxed);
        if is_own { seen } else { number }
    }

    /// Returns the kernel's number for a number that process `caller` uses.
    pub fn real(&self, number: i32, caller: i32) -> i32 {
        let is_itself = number != 0 && number == self.seen.load(Ordering::Relaxed);
        if is_itself && self.owner.load(Ordering::Acquire) == caller {
            caller
        } else {
            number
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_sees_the_number_of_the_failed_process() {
        let number = SeenNumber::new();
        assert_eq!((number.of(20), number.real(20, 20)), (20, 20));
        number.set(20, 10);
        assert_eq!((number.of(20), number.real(10, 20)), (10, 20));
        // A child of the replacement.
        assert_eq!((number.of(21), number.real(10, 21)), (21, 10));
        assert_eq!((number.real(0, 20), number.real(-10, 20)), (0, -10));
    }
}
