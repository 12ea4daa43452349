//! Process number that the program sees.

use core::sync::atomic::{AtomicI32, Ordering};

/// Process number (getpid(2)) that a replacement keeps from the failed process.
#[derive(Debug)]
pub struct SeenNumber {
    seen: AtomicI32,
    /// The replacement's own number (getpid(2)); zero in a process that is no replacement.
    ///
    /// A forked child has a copy of this structure. The child's number differs from this one, so
    /// the child sees the kernel's numbers.
    owner: AtomicI32,
}

impl SeenNumber {
    /// Creates the structure of a process that sees its own number.
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> SeenNumber {
        SeenNumber {
            seen: AtomicI32::new(0),
            owner: AtomicI32::new(0),
        }
    }

    /// Makes process `owner` see the number `seen`.
    pub fn set(&self, owner: i32, seen: i32) {
        self.seen.store(seen, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Release);
    }

    /// Returns the number that process `caller` sees as its own.
    pub fn seen_by(&self, caller: i32) -> i32 {
        let is_owner = self.owner.load(Ordering::Acquire) == caller;
        let seen = self.seen.load(Ordering::Relaxed);
        if is_owner { seen } else { caller }
    }

    /// Returns the kernel's number for a process number that `caller` passes to a system call.
    pub fn real(&self, number: i32, caller: i32) -> i32 {
        let is_seen = number != 0 && number == self.seen.load(Ordering::Relaxed);
        if is_seen && self.owner.load(Ordering::Acquire) == caller {
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
        assert_eq!((number.seen_by(20), number.real(20, 20)), (20, 20));
        number.set(20, 10);
        assert_eq!((number.seen_by(20), number.real(10, 20)), (10, 20));
        // A child of the replacement.
        assert_eq!((number.seen_by(21), number.real(10, 21)), (21, 10));
        assert_eq!((number.real(0, 20), number.real(-10, 20)), (0, -10));
    }
}
