//! Recipes of windows.

use super::epochs::Epochs;
use super::region::Region;
use crate::objects::attribute::value::Attributes;
use crate::objects::comm::hints::Pairs;
use std::ffi::c_int;
use understudy_job::Runtime;

/// Hint that a window is never locked.
///
/// The library is not told: general epochs are made of locks.
pub const NO_LOCKS: &[u8] = b"no_locks";

/// By which procedure a window was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Flavor {
    Create = 1,
    Allocate = 2,
    Dynamic = 3,
    Shared = 4,
}

/// Recipe of a window, and the values that the program has attached to it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Window {
    /// Index of its communicator.
    pub comm: u32,
    /// Procedure that has made the window.
    pub flavor: Flavor,
    /// Address of this process's part on the user side.
    pub base: u64,
    /// Bytes of this process's part.
    pub size: i64,
    /// Bytes of a unit of displacements.
    pub disp_unit: i32,
    /// Address of [`Cells`] on the user side, which malloc(3) has given.
    pub cells: u64,
    /// Block of malloc(3) for the memory of MPI_Win_allocate; zero if that is shared.
    pub block: u64,
    /// Memory that the members share.
    pub region: Region,
    /// Memory attached to a dynamic window: address and bytes, in the order of attaching.
    pub attached: Vec<(u64, i64)>,
    /// Hints: key and value.
    pub info: Pairs,
    /// The program's value of the hint [`NO_LOCKS`], which the library does not get.
    pub no_locks: Option<Vec<u8>>,
    /// The name that the program has set. C strings need not be UTF-8.
    pub name: Vec<u8>,
    /// The error handler: the program's handle; 0: the default.
    pub errhandler: u64,
    /// Attributes: key and value.
    pub attributes: Attributes,
    pub epochs: Epochs,
}

/// Values of predefined attributes on the user side, to which the program gets the addresses.
#[repr(C)]
pub struct Cells {
    pub(super) size: i64,
    pub(super) disp_unit: c_int,
    pub(super) flavor: c_int,
    pub(super) model: c_int,
}

impl Window {
    /// True if the memory is the library's own, which no copy has.
    pub(super) fn is_in_library(&self) -> bool {
        let is_allocated = matches!(self.flavor, Flavor::Allocate | Flavor::Shared);
        is_allocated && self.block == 0 && !self.region.is_mapped()
    }

    /// Returns the address of a displacement in a member's part.
    ///
    /// `None` unless this process shares that part, and an epoch is open in which it may load and
    /// store `bytes` there from `first` on, which is counted from the displacement.
    pub fn open_memory(
        &self,
        rt: &Runtime,
        rank: c_int,
        disp: isize,
        first: isize,
        bytes: u64,
    ) -> Option<u64> {
        let member = usize::try_from(rank).ok()?;
        let (base, segment) = self.region.segment(member)?;
        let at = disp.checked_mul(isize::try_from(segment.disp_unit).ok()?)?;
        let begin = u64::try_from(at.checked_add(first)?).ok()?;
        let is_inside = begin.checked_add(bytes)? <= u64::try_from(segment.size).ok()?;
        (is_inside && self.epochs.admit(rank) && self.region.reaches(rt, member))
            .then_some(base.wrapping_add_signed(at as i64))
    }
}
