//! Accumulate operations that this process applies itself to shared memory of a window.
//!
//! The library must apply an operation for which [`apply_directly`] or [`under_lock`] returns
//! `None`.
#![allow(unsafe_code)]

use super::one_sided::start;
use crate::Runtime;
use crate::errors::{ERR_NO_MEM, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtOp, VirtRequest, VirtWin};
use crate::objects::datatype::elements::{self, Elements, Operand};
use crate::objects::op;
use crate::objects::window::{self, DirectWindow};
use crate::{copies, fault};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use understudy_mpi::bytes::byte;
use understudy_mpi::call::ABANDONED;
use understudy_mpi::real_types::{PROC_NULL, RealRequest, RealWin};

/// Target of an accumulate.
#[derive(Clone, Copy)]
pub(super) struct AccumulateTarget {
    pub(super) rank: c_int,
    pub(super) disp: isize,
    pub(super) count: c_int,
    pub(super) datatype: VirtDatatype,
}

impl AccumulateTarget {
    pub(super) fn new(
        rank: c_int,
        disp: isize,
        count: c_int,
        datatype: VirtDatatype,
    ) -> AccumulateTarget {
        AccumulateTarget {
            rank,
            disp,
            count,
            datatype,
        }
    }

    /// Returns the target's elements at this address.
    pub(super) fn at(self, address: u64) -> Operand {
        Operand {
            address: address as *mut c_void,
            count: self.count,
            datatype: self.datatype,
        }
    }
}

pub(super) fn operand(at: *const c_void, count: c_int, datatype: VirtDatatype) -> Operand {
    let at = at.cast_mut();
    Operand {
        address: at,
        count,
        datatype,
    }
}

/// Change of the target's elements.
#[derive(Clone, Copy)]
pub(super) enum TargetChange {
    /// The target's elements are combined with the origin's.
    Combine(VirtOp),
    /// A target element that equals this one is replaced by the origin's.
    Swap(*const c_void),
}

/// Operands of an accumulate operation.
///
/// The old elements of the target are copied to `result`, if given. Then `change` is applied to the
/// target with the elements of the origin.
#[derive(Clone, Copy)]
pub(super) struct AccumulateOperation {
    pub(super) origin: Operand,
    pub(super) result: Option<Operand>,
    pub(super) target: AccumulateTarget,
    pub(super) change: TargetChange,
}

impl AccumulateOperation {
    pub(super) fn new(
        origin: Operand,
        result: Option<Operand>,
        target: AccumulateTarget,
        change: TargetChange,
    ) -> AccumulateOperation {
        AccumulateOperation {
            origin,
            result,
            target,
            change,
        }
    }
}

/// Adds a single number, if numbers have been added to this memory before.
///
/// Returns true if the operation is complete.
///
/// # Safety
/// As for `MPI_Fetch_and_op`.
#[inline(always)]
pub(super) unsafe fn add_to_recent(
    rt: &Runtime,
    win: VirtWin,
    operation: AccumulateOperation,
) -> bool {
    let AccumulateOperation {
        origin,
        result,
        target,
        change: TargetChange::Combine(op),
    } = operation
    else {
        return false;
    };
    let is_one = |count, datatype| count == 1 && datatype == target.datatype;
    let is_single = is_one(origin.count, origin.datatype)
        && is_one(target.count, target.datatype)
        && result.is_none_or(|result| is_one(result.count, result.datatype));
    if !is_single || op != op::sum(rt) || fault::is_any() {
        return false;
    }
    let (location, before) = (
        (target.rank, target.disp),
        result.map(|result| result.address),
    );
    // SAFETY: MPI requires the program's buffers to be valid; each has one element of the target's
    // datatype.
    unsafe {
        window::recent_access::add(rt, win, location, target.datatype, origin.address, before)
    }
}

/// Applies an accumulate operation without the library, and returns its return code.
///
/// `None` if the library must apply it.
#[inline(always)]
pub(super) fn apply_directly(
    rt: &Runtime,
    win: VirtWin,
    operation: AccumulateOperation,
) -> Option<c_int> {
    // SAFETY: MPI requires the program's buffers to be valid.
    if unsafe { add_to_recent(rt, win, operation) } {
        return Some(SUCCESS);
    }
    under_lock(rt, win, operation)
}

/// Implements [`apply_directly`] for elements of any kind and number.
#[inline(never)]
pub(super) fn under_lock(
    rt: &Runtime,
    win: VirtWin,
    operation: AccumulateOperation,
) -> Option<c_int> {
    let AccumulateOperation {
        origin,
        result,
        target,
        change,
    } = operation;
    let (direct, elements, memory) = match reach_recent(rt, win, target, change) {
        Some(reached) => reached,
        None => {
            let direct = match window::direct(rt, win) {
                Ok(direct) => direct.filter(|direct| direct.has_locks())?,
                Err(_) => return Some(ERR_NO_MEM),
            };
            let (elements, memory) = reach(rt, win, target, change)?;
            (direct, elements, memory)
        }
    };
    let Some(lock) = direct.lock(target.rank as usize) else {
        return Some(ABANDONED);
    };
    fault::point("accumulate.half", copies::committed_epoch(rt));
    // SAFETY: MPI requires the program's buffers to be valid; `memory` is inside of the window.
    let outcome = unsafe {
        let copied = result.map_or(Ok(()), |result| elements.copy(rt, memory, result));
        copied.and_then(|()| match change {
            TargetChange::Combine(op) if op == op::no_op(rt) => Ok(()),
            TargetChange::Combine(op) if op != op::replace(rt) => {
                elements.combine(rt, origin, memory, op)
            }
            TargetChange::Swap(wanted) if !elements.are_equal(wanted, memory.address) => Ok(()),
            TargetChange::Combine(_) | TargetChange::Swap(_) => elements.copy(rt, origin, memory),
        })
    };
    drop(lock);
    Some(outcome.err().unwrap_or(SUCCESS))
}

/// True for an operator of the program, which the library must refuse (12.3.4).
fn is_user_defined(rt: &Runtime, change: TargetChange) -> bool {
    matches!(change, TargetChange::Combine(op) if op::index(rt, op).is_some())
}

/// Implements [`reach`] for the part of a window that was used last.
fn reach_recent(
    rt: &Runtime,
    win: VirtWin,
    target: AccumulateTarget,
    change: TargetChange,
) -> Option<(Rc<DirectWindow>, Elements, Operand)> {
    let elements = (target.count, target.datatype);
    let (direct, at, bytes) = window::recent_access::cached_window_and_memory(
        rt,
        win,
        (target.rank, target.disp),
        elements,
    )?;
    if bytes == 0 || !direct.has_locks() || is_user_defined(rt, change) {
        return None;
    }
    let size = bytes as usize / target.count as usize;
    let elements = Elements::dense(rt, target.datatype, size);
    Some((direct, elements, target.at(at)))
}

/// Returns the target's memory and its elements.
///
/// `None` for an error, which the library must report, and for an empty operation.
fn reach(
    rt: &Runtime,
    win: VirtWin,
    target: AccumulateTarget,
    change: TargetChange,
) -> Option<(Elements, Operand)> {
    if is_user_defined(rt, change) {
        return None;
    }
    let elements = Elements::of_datatype(rt, target.datatype)?;
    let (first, bytes) = elements::data_span(rt, target.count, target.datatype)?;
    let at =
        window::get(rt, win)?.accessible_address(rt, target.rank, target.disp, first, bytes)?;
    if let Some(size) = elements.size_of_dense(target.datatype) {
        window::recent_access::cache_part(rt, win, target.rank, target.datatype, size as u64);
    }
    Some((elements, target.at(at)))
}

/// Implements [`start`] for an accumulate operation.
///
/// An operation that has been applied directly gets a completed request.
///
/// # Safety
/// As for [`start`].
pub(super) unsafe fn start_or_ended(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    request: *mut VirtRequest,
    direct_rc: Option<c_int>,
    library: impl FnOnce(RealWin, &mut RealRequest) -> c_int,
) -> c_int {
    // SAFETY: `request` is the program's address for the request, or null.
    unsafe {
        start(rt, procedure, win, request, |real, new| match direct_rc {
            Some(SUCCESS) => write_completed_request(real, new),
            Some(rc) => rc,
            None => library(real, new),
        })
    }
}

/// Writes the request of a completed operation.
fn write_completed_request(win: RealWin, request: &mut RealRequest) -> c_int {
    // SAFETY: a put of zero bytes to MPI_PROC_NULL accesses no memory.
    unsafe {
        real::PMPI_Rput(
            ptr::null(),
            0,
            byte(),
            PROC_NULL,
            0,
            0,
            byte(),
            win,
            request,
        )
    }
}
