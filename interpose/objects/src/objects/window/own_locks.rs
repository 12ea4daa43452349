//! Passive target locks that a process holds on a window (MPI 4.1, 12.5.3).
//!
//! Most processes hold one lock at a time, for one operation. The list keeps its memory when it
//! becomes empty, so these locks need no call of the allocator.

use std::ffi::c_int;

/// Arguments of the call that has taken a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct LockArguments {
    /// `MPI_LOCK_SHARED` or `MPI_LOCK_EXCLUSIVE`.
    pub lock_type: i32,
    /// Assertion: zero or `MPI_MODE_NOCHECK`.
    pub assert: i32,
}

/// Ranks whose locks are held, in ascending order, with the arguments of the locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct OwnLocks(Vec<(i32, LockArguments)>);

impl OwnLocks {
    #[inline]
    fn find(&self, rank: c_int) -> Result<usize, usize> {
        self.0.binary_search_by_key(&rank, |&(rank, _)| rank)
    }

    /// True if the lock of `rank` is held.
    #[inline]
    pub fn has(&self, rank: c_int) -> bool {
        self.find(rank).is_ok()
    }

    /// Returns type and assertion of the lock of `rank`, if it is held.
    #[inline]
    pub fn get(&self, rank: c_int) -> Option<LockArguments> {
        self.find(rank).ok().map(|at| self.0[at].1)
    }

    /// True if no lock is held and one can be added without the allocator.
    #[inline]
    pub fn has_room_for_first(&self) -> bool {
        self.0.is_empty() && self.0.capacity() > 0
    }

    /// Adds the first lock, if there is room for it.
    #[inline]
    pub fn push_first(&mut self, rank: c_int, arguments: LockArguments) {
        if self.has_room_for_first() {
            self.0.push((rank, arguments));
        }
    }

    /// Returns type and assertion of the lock of `rank`, if no other lock is held.
    #[inline]
    pub fn only(&self, rank: c_int) -> Option<LockArguments> {
        match self.0[..] {
            [(only, arguments)] if only == rank => Some(arguments),
            _ => None,
        }
    }

    /// Adds or replaces a lock that has been taken.
    #[inline]
    pub fn insert(&mut self, rank: c_int, arguments: LockArguments) {
        match self.find(rank) {
            Ok(at) => self.0[at].1 = arguments,
            Err(at) => self.0.insert(at, (rank, arguments)),
        }
    }

    /// Removes a lock that has been released.
    #[inline]
    pub fn remove(&mut self, rank: c_int) {
        if let Ok(at) = self.find(rank) {
            self.0.remove(at);
        }
    }

    /// Removes all locks, which have been released.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes all locks except those of some ranks.
    pub fn retain(&mut self, mut is_kept: impl FnMut(c_int) -> bool) {
        self.0.retain(|&(rank, _)| is_kept(rank));
    }

    /// True if no lock is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (c_int, LockArguments)> + '_ {
        self.0.iter().copied()
    }

    pub fn ranks(&self) -> impl Iterator<Item = c_int> + '_ {
        self.iter().map(|(rank, _)| rank)
    }
}
