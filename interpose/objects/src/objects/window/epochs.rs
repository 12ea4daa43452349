//! Open epochs of windows (MPI 4.1, 12.5).
#![allow(unsafe_code)]

use super::held::Held;
use crate::generated::real;
use std::collections::BTreeSet;
use std::ffi::c_int;
use understudy_mpi::real_types::RealWin;
use understudy_mpi::{self as mpi, check};

const LOCK_EXCLUSIVE: c_int = 1;
pub const LOCK_SHARED: c_int = 2;
pub const NO_CHECK: c_int = 1;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Shared,
    Exclusive,
    /// Not at all: the program says that nobody else asks for it (MPI 4.1, 12.5.5), and libraries
    /// take its word for that.
    Unchecked,
}

impl Hold {
    /// By a lock's type and assertion.
    #[inline]
    pub fn of(kind: c_int, assert: c_int) -> Option<Hold> {
        match kind {
            LOCK_SHARED | LOCK_EXCLUSIVE if assert & NO_CHECK != 0 => Some(Hold::Unchecked),
            LOCK_SHARED => Some(Hold::Shared),
            LOCK_EXCLUSIVE => Some(Hold::Exclusive),
            _ => None,
        }
    }
}

/// What is open on a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Epochs {
    /// The last fence may be followed by another one; the same in all members.
    pub is_fenced: bool,
    /// All are locked (MPI_Win_lock_all), with this assertion.
    pub all: Option<i32>,
    /// Locks, those of targets too.
    pub locks: Held,
    /// The targets between MPI_Win_start and MPI_Win_complete.
    pub targets: Option<Vec<i32>>,
    /// The origins between MPI_Win_post and MPI_Win_wait.
    pub origins: Option<Vec<i32>>,
    /// Who has posted, and nobody has asked for that yet.
    pub exposed: BTreeSet<i32>,
    /// Who has completed, and nobody has asked for that yet.
    pub done: BTreeSet<i32>,
}

impl Epochs {
    /// Between start and complete, or between post and wait.
    pub fn are_general(&self) -> bool {
        self.targets.is_some() || self.origins.is_some()
    }

    /// Whether this process may access a member's part.
    pub fn admit(&self, rank: c_int) -> bool {
        let is_target = || {
            self.targets
                .as_ref()
                .is_some_and(|targets| targets.contains(&rank))
        };
        self.is_fenced || self.all.is_some() || self.locks.has(rank) || is_target()
    }

    /// Whether a lock is held: on a rank, or on any.
    pub(super) fn are_passive(&self, rank: Option<c_int>) -> bool {
        self.all.is_some() || rank.map_or(!self.locks.is_empty(), |rank| self.locks.has(rank))
    }

    /// Whether this process may lock a member's part: it holds no lock of that, nor is it between
    /// start and complete.
    #[inline]
    pub fn may_lock(&self, rank: c_int) -> bool {
        self.targets.is_none() && self.all.is_none() && !self.locks.has(rank)
    }

    /// Whether this process may begin to access any of them: it holds no lock, nor is it between
    /// start and complete.
    pub fn may_begin(&self) -> bool {
        self.targets.is_none() && self.all.is_none() && self.locks.is_empty()
    }

    /// How this process holds the lock of a member's part.
    #[inline]
    pub fn held(&self, rank: c_int) -> Option<Hold> {
        self.locks
            .get(rank)
            .and_then(|(kind, assert)| Hold::of(kind, assert))
    }

    /// How it holds those of all members.
    pub fn held_of_all(&self) -> Option<Hold> {
        Hold::of(LOCK_SHARED, self.all?)
    }

    /// Whether an epoch is open that excludes one between fences.
    pub(super) fn is_held(&self) -> bool {
        self.all.is_some() || !self.locks.is_empty() || self.are_general()
    }

    /// Opens them on a window that has been made again. All members call it.
    pub(super) fn open(&self, win: RealWin) -> mpi::Result<()> {
        // SAFETY: a window of ours. Locks that were held at the same time do not exclude each
        // other.
        unsafe {
            if self.is_fenced {
                check(real::PMPI_Win_fence(0, win))?;
            }
            if let Some(assert) = self.all {
                check(real::PMPI_Win_lock_all(assert, win))?;
            }
            for (rank, (kind, assert)) in self.locks.iter() {
                check(real::PMPI_Win_lock(kind, rank, assert, win))?;
            }
        }
        Ok(())
    }
}
