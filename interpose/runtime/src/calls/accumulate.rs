//! Accumulate operations (MPI 4.1, 12.3.4 to 12.3.6).
//!
//! The origin applies an operation itself if all members share the memory of the window; otherwise
//! the library applies the operation.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use super::direct_accumulate::{
    AccumulateOperation, AccumulateTarget, TargetChange, add_to_recent, apply_directly, operand,
    start_or_ended, under_lock,
};
use super::one_sided::finish;
use crate::calls::runtime;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtOp, VirtRequest, VirtWin, real_datatype, real_op};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealRequest, RealWin};

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
    let target = AccumulateTarget::new(target_rank, target_disp, target_count, target_datatype);
    // SAFETY: MPI requires the program's buffer to be valid.
    if unsafe {
        add_to_recent(
            rt,
            win,
            AccumulateOperation::new(origin, None, target, TargetChange::Combine(op)),
        )
    } {
        return SUCCESS;
    }
    // SAFETY: MPI requires the program's arguments to be valid.
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

/// Implements [`MPI_Accumulate`] for any elements.
///
/// The function is separate, so that [`MPI_Accumulate`] of a single number needs no stack slot for
/// the operation.
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
    let target = AccumulateTarget::new(target_rank, target_disp, target_count, target_datatype);
    let direct_rc = under_lock(
        rt,
        win,
        AccumulateOperation::new(origin, None, target, TargetChange::Combine(op)),
    );
    finish(rt, Proc::MPI_Accumulate, win, direct_rc, |real| {
        let [here, there] =
            [origin_datatype, target_datatype].map(|datatype| real_datatype(rt, datatype));
        let op = real_op(rt, op);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    let target = AccumulateTarget::new(target_rank, target_disp, target_count, target_datatype);
    let direct_rc = apply_directly(
        rt,
        win,
        AccumulateOperation::new(origin, Some(result), target, TargetChange::Combine(op)),
    );
    finish(rt, Proc::MPI_Get_accumulate, win, direct_rc, |real| {
        let [from, result, to] = [origin_datatype, result_datatype, target_datatype]
            .map(|datatype| real_datatype(rt, datatype));
        let op = real_op(rt, op);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    let target = AccumulateTarget::new(target_rank, target_disp, 1, datatype);
    let direct_rc = apply_directly(
        rt,
        win,
        AccumulateOperation::new(origin, Some(result), target, TargetChange::Combine(op)),
    );
    finish(rt, Proc::MPI_Fetch_and_op, win, direct_rc, |real| {
        let datatype = real_datatype(rt, datatype);
        let op = real_op(rt, op);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    let target = AccumulateTarget::new(target_rank, target_disp, 1, datatype);
    let direct_rc = apply_directly(
        rt,
        win,
        AccumulateOperation::new(
            origin,
            Some(result),
            target,
            TargetChange::Swap(compare_addr),
        ),
    );
    finish(rt, Proc::MPI_Compare_and_swap, win, direct_rc, |real| {
        let datatype = real_datatype(rt, datatype);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    let target = AccumulateTarget::new(target_rank, target_disp, target_count, target_datatype);
    let direct_rc = apply_directly(
        rt,
        win,
        AccumulateOperation::new(origin, None, target, TargetChange::Combine(op)),
    );
    let library = |real: RealWin, new: &mut RealRequest| {
        let [from, to] =
            [origin_datatype, target_datatype].map(|datatype| real_datatype(rt, datatype));
        let op = real_op(rt, op);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    // SAFETY: MPI requires the program's address for the request to be valid.
    unsafe { start_or_ended(rt, Proc::MPI_Raccumulate, win, request, direct_rc, library) }
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
    let target = AccumulateTarget::new(target_rank, target_disp, target_count, target_datatype);
    let direct_rc = apply_directly(
        rt,
        win,
        AccumulateOperation::new(origin, Some(result), target, TargetChange::Combine(op)),
    );
    let library = |real: RealWin, new: &mut RealRequest| {
        let [from, result, to] = [origin_datatype, result_datatype, target_datatype]
            .map(|datatype| real_datatype(rt, datatype));
        let op = real_op(rt, op);
        // SAFETY: MPI requires the program's arguments to be valid.
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
    // SAFETY: MPI requires the program's address for the request to be valid.
    unsafe {
        start_or_ended(
            rt,
            Proc::MPI_Rget_accumulate,
            win,
            request,
            direct_rc,
            library,
        )
    }
}
