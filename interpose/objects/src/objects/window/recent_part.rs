//! Memory of one member of a window that was accessed last.

use super::direct::DirectWindow;
use super::epochs::Epochs;
use super::number_type::NumberType;
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
    /// Type of an element, if this process can add elements itself.
    pub(super) number: Option<NumberType>,
    /// Address of the part in this process.
    pub(super) memory: u64,
    /// Size of the part in bytes.
    pub(super) size: u64,
    /// Unit of displacements in bytes.
    pub(super) unit: u64,
    /// True if an epoch is open in which this process may access the part.
    pub(super) is_open: bool,
    /// True if this process holds a lock on the part.
    pub(super) is_passive: bool,
    pub(super) direct: Rc<DirectWindow>,
}

impl RecentPart {
    /// True if this is the part of `rank` of the window.
    #[inline]
    pub(super) fn matches(&self, win: VirtWin, rank: c_int) -> bool {
        self.win == win && self.rank == rank
    }

    #[inline]
    pub(super) fn update(&mut self, epochs: &Epochs) {
        self.is_open = epochs.may_access(self.rank);
        self.is_passive = epochs.is_passive(Some(self.rank));
    }

    /// Records a lock or unlock of the part, outside of fences.
    #[inline]
    pub(super) fn set_locked(&mut self, rank: c_int, is_locked: bool) {
        if self.rank == rank {
            (self.is_open, self.is_passive) = (is_locked, is_locked);
        }
    }

    /// Returns address and size in bytes of `count` elements at a displacement.
    ///
    /// `None` if they are not in the part, or if no epoch is open in which they may be accessed.
    #[inline]
    pub(super) fn memory(&self, disp: isize, count: c_int) -> Option<(u64, u64)> {
        let bytes = self.element * u64::try_from(count).ok()?;
        if !self.is_open {
            return None;
        }
        let begin = self.unit.checked_mul(u64::try_from(disp).ok()?)?;
        (begin.checked_add(bytes)? <= self.size).then_some((self.memory + begin, bytes))
    }
}
