//! Open epochs of windows (MPI 4.1, 12.5).
#![allow(unsafe_code)]

use super::own_locks::{LockArguments, OwnLocks};
use crate::generated::real;
use std::collections::BTreeSet;
use std::ffi::c_int;
use understudy_mpi::real_types::RealWin;
use understudy_mpi::{self as mpi, check};

const LOCK_EXCLUSIVE: c_int = 1;
pub const LOCK_SHARED: c_int = 2;
pub const NO_CHECK: c_int = 1;

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
    /// No lock: the program asserts that no conflicting locks exist (`MPI_MODE_NOCHECK`).
    ///
    /// Libraries rely on this assertion (MPI 4.1, 12.5.5), and so does the runtime.
    Unchecked,
}

impl LockArguments {
    /// Returns the kind of the lock; `None` if the lock type is invalid.
    #[inline]
    pub fn kind(self) -> Option<LockKind> {
        LockKind::from_arguments(self.lock_type, self.assert)
    }
}

impl LockKind {
    /// Returns the kind of a lock from its type and assertion.
    #[inline]
    pub fn from_arguments(kind: c_int, assert: c_int) -> Option<LockKind> {
        match kind {
            LOCK_SHARED | LOCK_EXCLUSIVE if assert & NO_CHECK != 0 => Some(LockKind::Unchecked),
            LOCK_SHARED => Some(LockKind::Shared),
            LOCK_EXCLUSIVE => Some(LockKind::Exclusive),
            _ => None,
        }
    }
}

/// Open epochs of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Epochs {
    /// True if another fence may follow the last fence; equal in all members.
    pub is_fenced: bool,
    /// Assertion of `MPI_Win_lock_all`, if all members are locked.
    pub all: Option<i32>,
    /// Locks of single members, including members that are targets of general epochs.
    pub locks: OwnLocks,
    /// Targets between `MPI_Win_start` and `MPI_Win_complete`.
    pub targets: Option<Vec<i32>>,
    /// Origins between `MPI_Win_post` and `MPI_Win_wait`.
    pub origins: Option<Vec<i32>>,
    /// Members whose message `Exposed` ([`crate::exposure`]) has not been consumed yet.
    pub exposed: BTreeSet<i32>,
    /// Members whose message `Done` has not been consumed yet.
    pub done: BTreeSet<i32>,
}

impl Epochs {
    /// True in an epoch of general active target synchronization.
    ///
    /// Such an epoch lasts from start to complete, or from post to wait.
    pub fn is_general(&self) -> bool {
        self.targets.is_some() || self.origins.is_some()
    }

    /// True if this process may access a member's part.
    pub fn may_access(&self, rank: c_int) -> bool {
        let is_target = || {
            self.targets
                .as_ref()
                .is_some_and(|targets| targets.contains(&rank))
        };
        self.is_fenced || self.all.is_some() || self.locks.has(rank) || is_target()
    }

    /// True if this process holds a lock of `rank`, or of any member.
    pub(super) fn is_passive(&self, rank: Option<c_int>) -> bool {
        self.all.is_some() || rank.map_or(!self.locks.is_empty(), |rank| self.locks.has(rank))
    }

    /// True if this process may lock a member's part.
    ///
    /// The process must hold no lock of that member or of all members, and not be between start and
    /// complete.
    #[inline]
    pub fn may_lock(&self, rank: c_int) -> bool {
        self.targets.is_none() && self.all.is_none() && !self.locks.has(rank)
    }

    /// True if this process may begin to access any member.
    ///
    /// The process must hold no lock, and not be between start and complete.
    pub fn may_begin(&self) -> bool {
        self.targets.is_none() && self.all.is_none() && self.locks.is_empty()
    }

    /// Returns the kind of the lock that this process holds on a member's part.
    #[inline]
    pub fn lock_kind(&self, rank: c_int) -> Option<LockKind> {
        self.locks.get(rank).and_then(LockArguments::kind)
    }

    /// Returns the kind of the lock that this process holds on all members.
    pub fn lock_all_kind(&self) -> Option<LockKind> {
        LockKind::from_arguments(LOCK_SHARED, self.all?)
    }

    /// True if an epoch is open that excludes an epoch between fences.
    pub(super) fn excludes_fence(&self) -> bool {
        self.all.is_some() || !self.locks.is_empty() || self.is_general()
    }

    /// Reopens these epochs on a window that has been rebuilt. Collective.
    pub(super) fn open(&self, win: RealWin) -> mpi::Result<()> {
        // SAFETY: the window has just been created, and all members make these calls. Locks that
        // were held at one time do not exclude each other.
        unsafe {
            if self.is_fenced {
                check(real::PMPI_Win_fence(0, win))?;
            }
            if let Some(assert) = self.all {
                check(real::PMPI_Win_lock_all(assert, win))?;
            }
            for (rank, LockArguments { lock_type, assert }) in self.locks.iter() {
                check(real::PMPI_Win_lock(lock_type, rank, assert, win))?;
            }
        }
        Ok(())
    }
}
