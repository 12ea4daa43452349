//! Memory of one member of a window, as the last access found it.

use super::direct::Direct;
use super::epochs::Epochs;
use super::number::Number;
use crate::handles::{VirtDatatype, VirtWin};
use std::ffi::c_int;
use std::rc::Rc;

/// Memory of a member that this process may load from and store to.
#[derive(Debug)]
pub struct RecentPart {
    pub(super) win: VirtWin,
    pub(super) rank: c_int,
    pub(super) datatype: VirtDatatype,
    /// Size of an element of `datatype` in bytes.
    pub(super) element: u64,
    pub(super) number: Option<Number>,
    pub(super) memory: u64,
    pub(super) size: u64,
    pub(super) unit: u64,
    /// True if an epoch is open in which this process may access the part.
    pub(super) is_open: bool,
    /// True if this process holds a lock on the part.
    pub(super) is_passive: bool,
    pub(super) direct: Rc<Direct>,
}

impl RecentPart {
    #[inline]
    pub(super) fn is_of(&self, win: VirtWin, rank: c_int) -> bool {
        self.win == win && self.rank == rank
    }

    #[inline]
    pub(super) fn note(&mut self, epochs: &Epochs) {
        self.is_open = epochs.admit(self.rank);
        self.is_passive = epochs.are_passive(Some(self.rank));
    }

    /// Records a lock or unlock of the part, outside of fences.
    #[inline]
    pub(super) fn set_locked(&mut self, rank: c_int, is: bool) {
        if self.rank == rank {
            (self.is_open, self.is_passive) = (is, is);
        }
    }

    #[inline]
    pub(super) fn place(&self, disp: isize, count: c_int) -> Option<(u64, u64)> {
        let bytes = self.element * u64::try_from(count).ok()?;
        if !self.is_open {
            return None;
        }
        let begin = self.unit.checked_mul(u64::try_from(disp).ok()?)?;
        (begin.checked_add(bytes)? <= self.size).then_some((self.memory + begin, bytes))
    }
}
