//! Operators in the table, and their real operators.
#![allow(unsafe_code)]

use super::bindings::TRAMPOLINES;
use super::operator::{Function, Op};
use super::trampolines::FUNCTIONS;
use crate::Runtime;
use crate::errors::{ERR_OP, SUCCESS};
use crate::generated::{HandleKind, callbacks, real};
use crate::handles::{self, VirtOp, real_op};
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::rebuild_error::log_not_rebuilt;
use crate::objects::{objects, objects_mut};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi::real_types::{RealDatatype, RealOp};

const ERR_NO_MEM: c_int = 39;
static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_op_null");
static REPLACE: PredefinedHandle = PredefinedHandle::new("ompi_mpi_op_replace");
static NO_OP: PredefinedHandle = PredefinedHandle::new("ompi_mpi_op_no_op");
static SUM: PredefinedHandle = PredefinedHandle::new("ompi_mpi_op_sum");

/// Returns the program's handle of `MPI_OP_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtOp {
    VirtOp(NULL.get(rt))
}

pub fn replace(rt: &Runtime) -> VirtOp {
    VirtOp(REPLACE.get(rt))
}

#[inline]
pub fn sum(rt: &Runtime) -> VirtOp {
    VirtOp(SUM.get(rt))
}

pub fn no_op(rt: &Runtime) -> VirtOp {
    VirtOp(NO_OP.get(rt))
}

/// Returns the index of a created operator that the program has not freed.
pub fn index(rt: &Runtime, op: VirtOp) -> Option<u32> {
    created_index(HandleKind::Op, op.0).filter(|&index| exists(rt, index))
}

/// True if an operator with this index exists and has not been freed.
pub fn exists(rt: &Runtime, index: u32) -> bool {
    objects(rt).ops.get(index).is_some_and(|op| !op.freed)
}

/// True if an operator is commutative, as all predefined operators of reductions are.
pub fn commutes(rt: &Runtime, op: VirtOp) -> bool {
    index(rt, op).is_none_or(|index| objects(rt).ops.get(index).is_some_and(|op| op.commutes))
}

/// Creates a real operator, and returns it with its trampoline.
fn create_real(rt: &Runtime, op: &Op) -> Result<(RealOp, usize), c_int> {
    let Some(trampoline) = rt.objects.bindings.borrow_mut().bind(op.function) else {
        log::error!("{}", message::too_many_operators(TRAMPOLINES));
        return Err(ERR_NO_MEM);
    };
    let function: callbacks::UserFunction<RealDatatype> =
        Some(FUNCTIONS[trampoline / 16][trampoline % 16]);
    let mut new = real_op(rt, null_handle(rt));
    // SAFETY: a function of the type that the real library calls. The function only passes on the
    // pointer to the length, so the size of the length does not matter.
    let rc = unsafe {
        let create = if op.is_large {
            real::PMPI_Op_create_c
        } else {
            real::PMPI_Op_create
        };
        create(function, c_int::from(op.commutes), &mut new)
    };
    if rc == SUCCESS {
        return Ok((new, trampoline));
    }
    rt.objects.bindings.borrow_mut().release(trampoline);
    Err(rc)
}

fn connect(rt: &Runtime, index: u32, (real, trampoline): (RealOp, usize)) {
    handles::set_real(rt, HandleKind::Op, index, real.0);
    rt.objects.bindings.borrow_mut().assign(index, trampoline);
}

/// Creates an operator that calls the function at this address of the program side.
pub fn create(rt: &Runtime, address: u64, commutes: bool, is_large: bool) -> Result<VirtOp, c_int> {
    let op = Op {
        function: Function { address, inner: 0 },
        commutes,
        is_large,
        references: 0,
        freed: false,
    };
    let made = create_real(rt, &op)?;
    let index = objects_mut(rt).ops.insert(op);
    connect(rt, index, made);
    Ok(VirtOp(handles::virtual_handle(HandleKind::Op, index)))
}

/// Sets the address that the operator's function receives after the arguments that MPI defines.
///
/// Returns false if the operator does not exist.
pub fn set_inner(rt: &Runtime, op: VirtOp, inner: u64) -> bool {
    let Some(index) = index(rt, op) else {
        return false;
    };
    let function = objects_mut(rt).ops.get_mut(index).map(|op| {
        op.function.inner = inner;
        op.function
    });
    let mut bindings = rt.objects.bindings.borrow_mut();
    if let (Some(function), Some(&Some(trampoline))) =
        (function, bindings.trampoline_of_op.get(index as usize))
    {
        bindings.functions[trampoline] = function;
    }
    true
}

pub fn free(rt: &Runtime, op: VirtOp) -> c_int {
    let Some(index) = index(rt, op) else {
        return ERR_OP;
    };
    if let Some(op) = objects_mut(rt).ops.get_mut(index) {
        op.freed = true;
    }
    remove_unused(rt, index)
}

/// Keeps an operator until [`release`], even if the program frees it.
pub fn retain(rt: &Runtime, op: VirtOp) {
    if let Some(index) = created_index(HandleKind::Op, op.0)
        && let Some(op) = objects_mut(rt).ops.get_mut(index)
    {
        op.references += 1;
    }
}

pub fn release(rt: &Runtime, op: VirtOp) {
    let Some(index) = created_index(HandleKind::Op, op.0) else {
        return;
    };
    match objects_mut(rt).ops.get_mut(index) {
        Some(op) => op.references = op.references.saturating_sub(1),
        None => return,
    }
    remove_unused(rt, index);
}

/// Removes an operator that the program has freed and no request uses.
fn remove_unused(rt: &Runtime, index: u32) -> c_int {
    if objects(rt)
        .ops
        .get(index)
        .is_some_and(|op| op.freed && op.references == 0)
    {
        objects_mut(rt).ops.remove(index);
        return drop_real(rt, index);
    }
    SUCCESS
}

fn drop_real(rt: &Runtime, index: u32) -> c_int {
    let mut op = real_op(rt, VirtOp(handles::virtual_handle(HandleKind::Op, index)));
    handles::set_real(rt, HandleKind::Op, index, std::ptr::null_mut());
    rt.objects.bindings.borrow_mut().unassign(index);
    if op.0.is_null() {
        return SUCCESS;
    }
    // SAFETY: an operator of the runtime; the real library keeps it alive while a reduction uses
    // it.
    unsafe { real::PMPI_Op_free(&mut op) }
}

/// Frees all real operators.
pub fn release_all(rt: &Runtime) {
    let all: Vec<u32> = objects(rt).ops.iter().map(|(index, _)| index).collect();
    for index in all {
        drop_real(rt, index);
    }
}

/// Creates the real operators from their recipes.
pub fn rebuild(rt: &Runtime) {
    for (index, op) in objects(rt).ops.iter() {
        match create_real(rt, op) {
            Ok(made) => connect(rt, index, made),
            Err(rc) => log_not_rebuilt(&format!("operator {index}"), rc),
        }
    }
}
