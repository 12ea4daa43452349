//! Accumulates (MPI 4.1, 12.3.4 to 12.3.6): by this process itself where all members of a window share its memory, else by the library.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use super::one_sided::{finish, start};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::{ERR_NO_MEM, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtOp, VirtRequest, VirtWin, real_datatype, real_op};
use crate::objects::datatype::elements::{self, Elements, Operand};
use crate::objects::window::Direct;
use crate::objects::{op, window};
use crate::{copies, fault};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use understudy_mpi::call::ABANDONED;
use understudy_mpi::comm::byte;
use understudy_mpi::real_types::{PROC_NULL, RealRequest, RealWin};

/// Where an accumulate goes to.
#[derive(Clone, Copy)]
struct Target {
    rank: c_int,
    disp: isize,
    count: c_int,
    datatype: VirtDatatype,
}

impl Target {
    fn new(rank: c_int, disp: isize, count: c_int, datatype: VirtDatatype) -> Target {
        Target {
            rank,
            disp,
            count,
            datatype,
        }
    }

    /// It is at this address.
    fn at(self, address: u64) -> Operand {
        Operand {
            at: address as *mut c_void,
            count: self.count,
            datatype: self.datatype,
        }
    }
}

fn operand(at: *const c_void, count: c_int, datatype: VirtDatatype) -> Operand {
    let at = at.cast_mut();
    Operand {
        at,
        count,
        datatype,
    }
}

/// What becomes of the target's elements.
#[derive(Clone, Copy)]
enum Way {
    /// They are combined with the origin's.
    Combine(VirtOp),
    /// Where they are equal to this one, they become the origin's.
    Swap(*const c_void),
}

/// What an accumulate does: the old elements of the target become the result, and it becomes what comes of them and the origin's.
#[derive(Clone, Copy)]
struct Operation {
    origin: Operand,
    result: Option<Operand>,
    target: Target,
    way: Way,
}

impl Operation {
    fn new(origin: Operand, result: Option<Operand>, target: Target, way: Way) -> Operation {
        Operation {
            origin,
            result,
            target,
            way,
        }
    }
}

/// Adds a single number where numbers have been added before; whether that was all.
///
/// # Safety
/// As of `MPI_Fetch_and_op`.
#[inline(always)]
unsafe fn add_again(rt: &Runtime, win: VirtWin, operation: Operation) -> bool {
    let Operation {
        origin,
        result,
        target,
        way: Way::Combine(op),
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
    let (place, before) = ((target.rank, target.disp), result.map(|result| result.at));
    // SAFETY: the caller's promise.
    unsafe { window::recent::add(rt, win, place, target.datatype, origin.at, before) }
}

/// Makes an accumulate without the library, where it is to be made so: what that has come to.
#[inline(always)]
fn by_itself(rt: &Runtime, win: VirtWin, operation: Operation) -> Option<c_int> {
    // SAFETY: the program's numbers.
    if unsafe { add_again(rt, win, operation) } {
        return Some(SUCCESS);
    }
    under_lock(rt, win, operation)
}

/// [`by_itself`] for elements of any kind and number.
#[inline(never)]
fn under_lock(rt: &Runtime, win: VirtWin, operation: Operation) -> Option<c_int> {
    let Operation {
        origin,
        result,
        target,
        way,
    } = operation;
    let (direct, elements, memory) = match reach_again(rt, win, target, way) {
        Some(reached) => reached,
        None => {
            let direct = match window::direct(rt, win) {
                Ok(direct) => direct.filter(|direct| direct.has_locks())?,
                Err(_) => return Some(ERR_NO_MEM),
            };
            let (elements, memory) = reach(rt, win, target, way)?;
            (direct, elements, memory)
        }
    };
    let Some(lock) = direct.lock(target.rank as usize) else {
        return Some(ABANDONED);
    };
    fault::point("accumulate.half", copies::epoch(rt));
    // SAFETY: the program's buffers; memory of the window, inside of it.
    let done = unsafe {
        let first = result.map_or(Ok(()), |result| elements.copy(rt, memory, result));
        first.and_then(|()| match way {
            Way::Combine(op) if op == op::no_op(rt) => Ok(()),
            Way::Combine(op) if op != op::replace(rt) => elements.combine(rt, origin, memory, op),
            Way::Swap(wanted) if !elements.are_equal(wanted, memory.at) => Ok(()),
            Way::Combine(_) | Way::Swap(_) => elements.copy(rt, origin, memory),
        })
    };
    drop(lock);
    Some(done.err().unwrap_or(SUCCESS))
}

/// Whether the operation is one of the program's own, which is for the library to refuse.
fn is_own(rt: &Runtime, way: Way) -> bool {
    matches!(way, Way::Combine(op) if op::index(rt, op).is_some())
}

/// [`reach`] for the part of a window that was reached last.
fn reach_again(
    rt: &Runtime,
    win: VirtWin,
    target: Target,
    way: Way,
) -> Option<(Rc<Direct>, Elements, Operand)> {
    let elements = (target.count, target.datatype);
    let (direct, at, bytes) =
        window::recent::direct_place(rt, win, (target.rank, target.disp), elements)?;
    if bytes == 0 || !direct.has_locks() || is_own(rt, way) {
        return None;
    }
    let size = bytes as usize / target.count as usize;
    let elements = Elements::dense(rt, target.datatype, size);
    Some((direct, elements, target.at(at)))
}

/// The target's memory and what it is made of. Nothing for what is an error, or no operation at all: that is for the library to say.
fn reach(rt: &Runtime, win: VirtWin, target: Target, way: Way) -> Option<(Elements, Operand)> {
    if is_own(rt, way) {
        return None;
    }
    let elements = Elements::of(rt, target.datatype)?;
    let (first, bytes) = elements::span(rt, target.count, target.datatype)?;
    let at = window::get(rt, win)?.open_memory(rt, target.rank, target.disp, first, bytes)?;
    if let Some(size) = elements.size_of_dense(target.datatype) {
        window::recent::remember(rt, win, target.rank, target.datatype, size as u64);
    }
    Some((elements, target.at(at)))
}

/// [`start`] for an accumulate: what the process has done itself has ended.
///
/// # Safety
/// As of [`start`].
unsafe fn start_or_ended(
    rt: &Runtime,
    procedure: Proc,
    win: VirtWin,
    request: *mut VirtRequest,
    done: Option<c_int>,
    library: impl FnOnce(RealWin, &mut RealRequest) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        start(rt, procedure, win, request, |real, new| match done {
            Some(SUCCESS) => ended(real, new),
            Some(rc) => rc,
            None => library(real, new),
        })
    }
}

/// The request of an operation that has ended.
fn ended(win: RealWin, request: &mut RealRequest) -> c_int {
    // SAFETY: no bytes, to nobody.
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

pub unsafe extern "C" fn MPI_Accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    target_count: c_int,
    target_datatype: VirtDatatype,
    op: VirtOp,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let origin = operand(origin_addr, origin_count, origin_datatype);
    let target = Target::new(target_rank, target_disp, target_count, target_datatype);
    // SAFETY: the program's numbers.
    if unsafe {
        add_again(
            rt,
            win,
            Operation::new(origin, None, target, Way::Combine(op)),
        )
    } {
        return SUCCESS;
    }
    // SAFETY: the same arguments.
    unsafe {
        accumulate_any(
            origin_addr,
            origin_count,
            origin_datatype,
            target_rank,
            target_disp,
            target_count,
            target_datatype,
            op,
            win,
        )
    }
}

/// [`MPI_Accumulate`] of any elements: apart, so that a single number is added without a place in memory for the operation.
#[inline(never)]
unsafe extern "C" fn accumulate_any(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    target_count: c_int,
    target_datatype: VirtDatatype,
    op: VirtOp,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let origin = operand(origin_addr, origin_count, origin_datatype);
    let target = Target::new(target_rank, target_disp, target_count, target_datatype);
    let done = under_lock(
        rt,
        win,
        Operation::new(origin, None, target, Way::Combine(op)),
    );
    finish(rt, Proc::MPI_Accumulate, win, done, |real| {
        let [here, there] = [origin_datatype, target_datatype].map(|it| real_datatype(rt, it));
        let op = real_op(rt, op);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Accumulate(
                origin_addr,
                origin_count,
                here,
                target_rank,
                target_disp,
                target_count,
                there,
                op,
                real,
            )
        }
    })
}

pub unsafe extern "C" fn MPI_Get_accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: VirtDatatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    target_count: c_int,
    target_datatype: VirtDatatype,
    op: VirtOp,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let origin = operand(origin_addr, origin_count, origin_datatype);
    let result = operand(result_addr, result_count, result_datatype);
    let target = Target::new(target_rank, target_disp, target_count, target_datatype);
    let done = by_itself(
        rt,
        win,
        Operation::new(origin, Some(result), target, Way::Combine(op)),
    );
    finish(rt, Proc::MPI_Get_accumulate, win, done, |real| {
        let [from, result, to] =
            [origin_datatype, result_datatype, target_datatype].map(|it| real_datatype(rt, it));
        let op = real_op(rt, op);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Get_accumulate(
                origin_addr,
                origin_count,
                from,
                result_addr,
                result_count,
                result,
                target_rank,
                target_disp,
                target_count,
                to,
                op,
                real,
            )
        }
    })
}

pub unsafe extern "C" fn MPI_Fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    op: VirtOp,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let (origin, result) = (
        operand(origin_addr, 1, datatype),
        operand(result_addr, 1, datatype),
    );
    let target = Target::new(target_rank, target_disp, 1, datatype);
    let done = by_itself(
        rt,
        win,
        Operation::new(origin, Some(result), target, Way::Combine(op)),
    );
    finish(rt, Proc::MPI_Fetch_and_op, win, done, |real| {
        let datatype = real_datatype(rt, datatype);
        let op = real_op(rt, op);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Fetch_and_op(
                origin_addr,
                result_addr,
                datatype,
                target_rank,
                target_disp,
                op,
                real,
            )
        }
    })
}

pub unsafe extern "C" fn MPI_Compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    win: VirtWin,
) -> c_int {
    let rt = runtime();
    let (origin, result) = (
        operand(origin_addr, 1, datatype),
        operand(result_addr, 1, datatype),
    );
    let target = Target::new(target_rank, target_disp, 1, datatype);
    let done = by_itself(
        rt,
        win,
        Operation::new(origin, Some(result), target, Way::Swap(compare_addr)),
    );
    finish(rt, Proc::MPI_Compare_and_swap, win, done, |real| {
        let datatype = real_datatype(rt, datatype);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Compare_and_swap(
                origin_addr,
                compare_addr,
                result_addr,
                datatype,
                target_rank,
                target_disp,
                real,
            )
        }
    })
}

pub unsafe extern "C" fn MPI_Raccumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    target_count: c_int,
    target_datatype: VirtDatatype,
    op: VirtOp,
    win: VirtWin,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let origin = operand(origin_addr, origin_count, origin_datatype);
    let target = Target::new(target_rank, target_disp, target_count, target_datatype);
    let done = by_itself(
        rt,
        win,
        Operation::new(origin, None, target, Way::Combine(op)),
    );
    let library = |real: RealWin, new: &mut RealRequest| {
        let [from, to] = [origin_datatype, target_datatype].map(|it| real_datatype(rt, it));
        let op = real_op(rt, op);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Raccumulate(
                origin_addr,
                origin_count,
                from,
                target_rank,
                target_disp,
                target_count,
                to,
                op,
                real,
                new,
            )
        }
    };
    // SAFETY: the program's place for the request.
    unsafe { start_or_ended(rt, Proc::MPI_Raccumulate, win, request, done, library) }
}

pub unsafe extern "C" fn MPI_Rget_accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: VirtDatatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: VirtDatatype,
    target_rank: c_int,
    target_disp: isize,
    target_count: c_int,
    target_datatype: VirtDatatype,
    op: VirtOp,
    win: VirtWin,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let origin = operand(origin_addr, origin_count, origin_datatype);
    let result = operand(result_addr, result_count, result_datatype);
    let target = Target::new(target_rank, target_disp, target_count, target_datatype);
    let done = by_itself(
        rt,
        win,
        Operation::new(origin, Some(result), target, Way::Combine(op)),
    );
    let library = |real: RealWin, new: &mut RealRequest| {
        let [from, result, to] =
            [origin_datatype, result_datatype, target_datatype].map(|it| real_datatype(rt, it));
        let op = real_op(rt, op);
        // SAFETY: the program's arguments are handed on.
        unsafe {
            real::PMPI_Rget_accumulate(
                origin_addr,
                origin_count,
                from,
                result_addr,
                result_count,
                result,
                target_rank,
                target_disp,
                target_count,
                to,
                op,
                real,
                new,
            )
        }
    };
    // SAFETY: the program's place for the request.
    unsafe { start_or_ended(rt, Proc::MPI_Rget_accumulate, win, request, done, library) }
}
