//! Recipes of windows.

use super::epochs::Epochs;
use super::region::SharedRegion;
use crate::objects::attribute::value::Attributes;
use crate::objects::comm::hints::Pairs;
use std::ffi::c_int;
use understudy_job::Runtime;

/// Hint that a window is never locked.
///
/// The library does not get this hint, since the runtime implements general active target
/// synchronization with locks.
pub const NO_LOCKS: &[u8] = b"no_locks";

/// Procedure that creates a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum WindowFlavor {
    Create = 1,
    Allocate = 2,
    Dynamic = 3,
    Shared = 4,
}

/// Recipe of a window, and the values that the program has attached to it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Window {
    /// Index of the window's communicator.
    pub comm: u32,
    /// Procedure that has created the window.
    pub flavor: WindowFlavor,
    /// Address of this process's part on the program side.
    pub base: u64,
    /// Size of this process's part in bytes.
    pub size: i64,
    /// Unit of displacements in bytes.
    pub disp_unit: i32,
    /// Address of [`AttributeCells`] on the program side, in a block of malloc(3).
    pub cells: u64,
    /// Block of malloc(3) for the memory of `MPI_Win_allocate`; zero if there is none.
    ///
    /// Memory that the members share has no block.
    pub block: u64,
    /// Memory that the members share; empty if they share none.
    pub region: SharedRegion,
    /// Address and size in bytes of memory attached to a dynamic window, in call order.
    pub attached: Vec<(u64, i64)>,
    /// Hints: keys and values.
    pub info: Pairs,
    /// The program's value of the hint [`NO_LOCKS`], which the library does not get.
    pub no_locks: Option<Vec<u8>>,
    /// Name that the program has set. C strings need not be UTF-8.
    pub name: Vec<u8>,
    /// Program's handle of the error handler; zero for the default.
    pub errhandler: u64,
    /// Attributes: keys and values.
    pub attributes: Attributes,
    pub epochs: Epochs,
}

/// Values of the predefined attributes of a window, on the program side.
///
/// `MPI_Win_get_attr` returns their addresses.
#[repr(C)]
pub struct AttributeCells {
    pub(super) size: i64,
    pub(super) disp_unit: c_int,
    pub(super) flavor: c_int,
    pub(super) model: c_int,
}

impl Window {
    /// True if the memory belongs to the library, so that no replica contains it.
    pub(super) fn is_in_library(&self) -> bool {
        let is_allocated = matches!(self.flavor, WindowFlavor::Allocate | WindowFlavor::Shared);
        is_allocated && self.block == 0 && !self.region.is_mapped()
    }

    /// Returns the address of a displacement in a member's part.
    ///
    /// The data begin `first` bytes after that address, and span `bytes` bytes. `None` unless the
    /// member is on this process's node, the part contains the data, and an epoch is open in which
    /// this process may load and store them.
    pub fn accessible_address(
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
        (is_inside && self.epochs.may_access(rank) && self.region.shares_node_with(rt, member))
            .then_some(base.wrapping_add_signed(at as i64))
    }
}
