//! Passive target locks of windows whose memory all members share (MPI 4.1, 12.5.3).
//!
//! Each member has a word, which the origins change:
//!
//! ```text
//!   63        32   31       30       29      0
//!   generation     writer   waits    readers
//! ```
//!
//! The word belongs to the MPI instance whose generation number it contains. In a later instance
//! the lock is free, and processes that held the lock at the cut take it once more
//! (`window_rebuild`). Processes that are still in an earlier instance cannot change the word.

use super::epochs::LockKind;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU64, Ordering};

/// Set if a process holds the lock exclusively.
const WRITER: u32 = 1 << 31;
/// Set if a process waits for an exclusive lock, which makes new readers wait too.
const WRITER_WAITS: u32 = 1 << 30;

/// Lock of a member's part, for processes of one MPI instance.
#[derive(Clone, Copy)]
pub struct PassiveLock<'a> {
    word: &'a AtomicU64,
    generation: u32,
}

impl PassiveLock<'_> {
    /// Returns a lock on a word of shared memory, whose initial value is zero.
    #[inline]
    pub fn new(word: &AtomicU64, generation: u32) -> PassiveLock<'_> {
        PassiveLock { word, generation }
    }

    /// Changes the state if `change` returns a new state; returns true in that case.
    ///
    /// Returns false if a later MPI instance uses the word.
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

    /// Takes the lock if no held lock excludes it and no writer waits.
    #[inline]
    pub fn take_free(self, kind: LockKind) -> bool {
        self.change(|state| match kind {
            LockKind::Shared => (state & (WRITER | WRITER_WAITS) == 0).then_some(state + 1),
            LockKind::Exclusive => (state == 0).then_some(WRITER),
            LockKind::Unchecked => Some(state),
        })
    }

    /// Takes the lock if no held lock excludes it.
    ///
    /// A waiting writer blocks readers, except one that `has_waited` for a long time: the writer
    /// may itself wait for another lock that this reader holds.
    #[inline]
    pub fn take(self, kind: LockKind, has_waited: bool) -> bool {
        let excluding = if has_waited {
            WRITER
        } else {
            WRITER | WRITER_WAITS
        };
        match kind {
            LockKind::Shared => self.change(|state| (state & excluding == 0).then_some(state + 1)),
            LockKind::Exclusive => {
                self.change(|state| (state & !WRITER_WAITS == 0).then_some(WRITER))
                    || self.announce_writer()
            }
            LockKind::Unchecked => true,
        }
    }

    /// Announces a waiting writer to readers; returns false, since the lock is not taken.
    #[cold]
    fn announce_writer(self) -> bool {
        self.change(|state| Some(state | WRITER_WAITS));
        false
    }

    #[inline]
    pub fn release(self, kind: LockKind) {
        self.change(|state| match kind {
            LockKind::Shared => Some(state.saturating_sub(1)),
            LockKind::Exclusive => Some(state & !WRITER),
            LockKind::Unchecked => None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::LockKind::{Exclusive, Shared};
    use super::*;

    #[test]
    fn one_writer_excludes_all_others() {
        let word = AtomicU64::new(0);
        let lock = PassiveLock::new(&word, 3);
        assert!(lock.take(Shared, false) && lock.take(Shared, false));
        assert!(!lock.take(Exclusive, false));
        // Now a writer waits.
        assert!(!lock.take(Shared, false) && lock.take(Shared, true));
        (0..3).for_each(|_| lock.release(Shared));
        assert!(!lock.take(Shared, false) && lock.take(Exclusive, false));
        assert!(!lock.take(Shared, true) && !lock.take(Exclusive, false));
        lock.release(Exclusive);
        assert!(lock.take(Exclusive, false));
        lock.release(Exclusive);
        assert!(lock.take(Shared, false));
    }

    #[test]
    fn a_lock_of_an_earlier_mpi_instance_counts_as_free() {
        let word = AtomicU64::new(0);
        let [before, after] = [3, 4].map(|generation| PassiveLock::new(&word, generation));
        assert!(before.take(Exclusive, false));
        assert!(after.take(Shared, false));
        before.release(Exclusive);
        assert!(!before.take(Shared, true) && !before.take(Exclusive, false));
        assert!(!after.take(Exclusive, false));
        after.release(Shared);
        assert!(after.take(Exclusive, false));
    }
}
