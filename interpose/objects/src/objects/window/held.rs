//! Passive target locks that a process holds on a window (MPI 4.1, 12.5.3).
//!
//! Most processes hold one lock, for one operation. The list therefore keeps its memory and avoids
//! the allocator.

use std::ffi::c_int;

/// Type and assertion of a lock.
pub type Terms = (i32, i32);

/// Types and assertions of locks, in the order of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Held(Vec<(i32, Terms)>);

impl Held {
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
    pub fn get(&self, rank: c_int) -> Option<Terms> {
        self.find(rank).ok().map(|at| self.0[at].1)
    }

    /// True if no lock is held and there is room for one.
    #[inline]
    pub fn has_room_for_first(&self) -> bool {
        self.0.is_empty() && self.0.capacity() > 0
    }

    /// Adds the first lock, if there is room for it.
    #[inline]
    pub fn push_first(&mut self, rank: c_int, terms: Terms) {
        if self.has_room_for_first() {
            self.0.push((rank, terms));
        }
    }

    /// Returns type and assertion of the lock of `rank`, if no other lock is held.
    #[inline]
    pub fn only(&self, rank: c_int) -> Option<Terms> {
        match self.0[..] {
            [(only, terms)] if only == rank => Some(terms),
            _ => None,
        }
    }

    /// Adds or replaces a lock that has been taken.
    #[inline]
    pub fn insert(&mut self, rank: c_int, terms: Terms) {
        match self.find(rank) {
            Ok(at) => self.0[at].1 = terms,
            Err(at) => self.0.insert(at, (rank, terms)),
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

    pub fn iter(&self) -> impl Iterator<Item = (c_int, Terms)> + '_ {
        self.0.iter().copied()
    }

    pub fn ranks(&self) -> impl Iterator<Item = c_int> + '_ {
        self.iter().map(|(rank, _)| rank)
    }
}
