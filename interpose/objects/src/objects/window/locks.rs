//! Passive target locks of windows whose memory all members share (MPI 4.1, 12.5.3).
//!
//! Each member has a word, which the origins change:
//!
//! ```text
//!   63        32   31       30       29      0
//!   generation     writer   waits    readers
//! ```
//!
//! A lock is free in any MPI instance later than that of its word: processes that held the lock
//! take it once more ([`super::Epochs::open`]). Processes that are still in an earlier MPI instance
//! cannot change the word.

use super::epochs::Hold;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU64, Ordering};

/// A process holds the lock exclusively.
const WRITER: u32 = 1 << 31;
/// A process waits for an exclusive lock, so no new readers are admitted.
const WAITS: u32 = 1 << 30;

/// Lock of a member's part, for processes of one MPI instance.
#[derive(Clone, Copy)]
pub struct Lock<'a> {
    word: &'a AtomicU64,
    generation: u32,
}

impl Lock<'_> {
    /// Returns a lock on a word of shared memory, whose initial value is zero.
    #[inline]
    pub fn new(word: &AtomicU64, generation: u32) -> Lock<'_> {
        Lock { word, generation }
    }

    /// Changes the state if `change` returns a new one; returns true in that case.
    #[inline]
    fn change(self, change: impl Fn(u32) -> Option<u32>) -> bool {
        let mut found = self.word.load(Ordering::Relaxed);
        loop {
            let state = match ((found >> 32) as u32).cmp(&self.generation) {
                Less => 0,
                Equal => found as u32,
                Greater => return false,
            };
            let Some(state) = change(state) else {
                return false;
            };
            let new = u64::from(self.generation) << 32 | u64::from(state);
            match self
                .word
                .compare_exchange_weak(found, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => found = now,
            }
        }
    }

    /// Takes the lock if it is free and no process waits for it.
    #[inline]
    pub fn take_free(self, hold: Hold) -> bool {
        self.change(|state| match hold {
            Hold::Shared => (state & (WRITER | WAITS) == 0).then_some(state + 1),
            Hold::Exclusive => (state == 0).then_some(WRITER),
            Hold::Unchecked => Some(state),
        })
    }

    /// Takes the lock if it is free.
    ///
    /// Readers are blocked while a writer waits. A reader that `has_waited` for a long time is not,
    /// since the writer may wait for a lock of that reader.
    #[inline]
    pub fn take(self, hold: Hold, has_waited: bool) -> bool {
        let barred = if has_waited { WRITER } else { WRITER | WAITS };
        match hold {
            Hold::Shared => self.change(|state| (state & barred == 0).then_some(state + 1)),
            Hold::Exclusive => {
                self.change(|state| (state & !WAITS == 0).then_some(WRITER)) || self.wish()
            }
            Hold::Unchecked => true,
        }
    }

    /// Announces a waiting writer to readers; returns false, since the lock is not taken.
    #[cold]
    fn wish(self) -> bool {
        self.change(|state| Some(state | WAITS));
        false
    }

    #[inline]
    pub fn give_back(self, hold: Hold) {
        self.change(|state| match hold {
            Hold::Shared => Some(state.saturating_sub(1)),
            Hold::Exclusive => Some(state & !WRITER),
            Hold::Unchecked => None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Hold::{Exclusive, Shared};
    use super::*;

    #[test]
    fn one_writer_excludes_all_others() {
        let word = AtomicU64::new(0);
        let lock = Lock::new(&word, 3);
        assert!(lock.take(Shared, false) && lock.take(Shared, false));
        assert!(!lock.take(Exclusive, false));
        // Now a writer waits.
        assert!(!lock.take(Shared, false) && lock.take(Shared, true));
        (0..3).for_each(|_| lock.give_back(Shared));
        assert!(!lock.take(Shared, false) && lock.take(Exclusive, false));
        assert!(!lock.take(Shared, true) && !lock.take(Exclusive, false));
        lock.give_back(Exclusive);
        assert!(lock.take(Exclusive, false));
        lock.give_back(Exclusive);
        assert!(lock.take(Shared, false));
    }

    #[test]
    fn a_later_generation_finds_it_free() {
        let word = AtomicU64::new(0);
        let [before, after] = [3, 4].map(|generation| Lock::new(&word, generation));
        assert!(before.take(Exclusive, false));
        assert!(after.take(Shared, false));
        before.give_back(Exclusive);
        assert!(!before.take(Shared, true) && !before.take(Exclusive, false));
        assert!(!after.take(Exclusive, false));
        after.give_back(Shared);
        assert!(after.take(Exclusive, false));
    }
}
