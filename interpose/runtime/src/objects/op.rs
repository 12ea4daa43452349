//! Operators of the program (MPI 4.1, 6.9.5).
//!
//! The real library calls a reduction function on the runtime's stack and with its own datatype. So a real operator is
//! made with one of a fixed number of *trampolines*, which calls the program's function on the program's stack and with
//! the program's handle. Which trampoline an operator has is this process's own affair; those that were given up longest
//! ago are taken first, since a reduction that is under way may still call one whose operator has been freed.
#![allow(unsafe_code)]

use super::datatype;
use super::lookup::{Predefined, created};
use super::{objects, objects_mut};
use crate::abi;
use crate::arch::{call_user, function_of};
use crate::cell::Door;
use crate::errors::{ERR_OP, SUCCESS};
use crate::generated::{HandleKind, callbacks, real};
use crate::handles::{self, VirtDatatype, VirtOp, real_op};
use crate::objects::Runtime;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use understudy_mpi::call;
use understudy_mpi::real_types::{RealDatatype, RealOp};

const ERR_NO_MEM: c_int = 39;
/// Number of operators that can exist at a time.
const TRAMPOLINES: usize = 256;

static NULL: Predefined = Predefined::new("ompi_mpi_op_null");
static REPLACE: Predefined = Predefined::new("ompi_mpi_op_replace");
static NO_OP: Predefined = Predefined::new("ompi_mpi_op_no_op");
static SUM: Predefined = Predefined::new("ompi_mpi_op_sum");

/// A reduction function of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Function {
    /// Its address.
    pub address: u64,
    /// What it gets behind the arguments that MPI says, if it is of C++: the address of another function, which it calls; else 0.
    pub inner: u64,
}

/// What is needed to make an operator again.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Op {
    pub function: Function,
    /// Whether it is commutative.
    pub commutes: bool,
    /// Whether the function gets the number of elements as an `MPI_Count`.
    pub is_large: bool,
    /// Persistent requests that use it.
    pub holders: u32,
    /// The program has freed it.
    pub freed: bool,
}

type Trampoline = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut RealDatatype);

/// Which trampoline calls which function.
pub(super) struct Bindings {
    functions: [Function; TRAMPOLINES],
    /// Those that no operator has, and the number of those that none has had yet.
    free: VecDeque<usize>,
    untouched: usize,
    /// By the operator's index.
    of_op: Vec<Option<usize>>,
}

impl Bindings {
    pub(super) const fn new() -> Bindings {
        Bindings {
            functions: [Function {
                address: 0,
                inner: 0,
            }; TRAMPOLINES],
            free: VecDeque::new(),
            untouched: TRAMPOLINES,
            of_op: Vec::new(),
        }
    }

    /// Finds a trampoline for a function.
    fn take(&mut self, function: Function) -> Option<usize> {
        let number = if self.untouched > 0 {
            self.untouched -= 1;
            TRAMPOLINES - 1 - self.untouched
        } else {
            self.free.pop_front()?
        };
        self.functions[number] = function;
        Some(number)
    }

    /// The function stays bound until the trampoline is taken again.
    fn give_up(&mut self, number: usize) {
        self.free.push_back(number);
    }

    fn assign(&mut self, op: u32, number: usize) {
        let op = op as usize;
        if self.of_op.len() <= op {
            self.of_op.resize(op + 1, None);
        }
        if let Some(old) = self.of_op[op].replace(number) {
            self.give_up(old);
        }
    }

    fn unassign(&mut self, op: u32) {
        if let Some(number) = self.of_op.get_mut(op as usize).and_then(Option::take) {
            self.give_up(number);
        }
    }
}

/// For the functions that the real library calls.
pub static DOOR: Door<Runtime> = Door::new();

/// The length is an int or an `MPI_Count`, as the program's function wants it.
///
/// # Safety
/// To be called by the real library during a reduction.
unsafe extern "C" fn trampoline<const NUMBER: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *mut RealDatatype,
) {
    let rt = DOOR.get();
    let _callback = call::Callback::new();
    let function = rt.bindings.borrow().functions[NUMBER];
    // SAFETY: the real library's argument.
    let handle: VirtDatatype =
        datatype::virtual_of(rt, unsafe { understudy_mpi::abi::datatype_at(datatype) });
    let mut handle = abi::for_program(rt, HandleKind::Datatype, handle.0 as u64);
    // SAFETY: the program's function of this type; the real library runs because the program has called it.
    unsafe {
        let [invec, inoutvec, len, handle] = [
            invec as u64,
            inoutvec as u64,
            len as u64,
            &raw mut handle as u64,
        ];
        match (function.address, function.inner) {
            (callback, 0) => {
                let (address, context) = function_of(callback);
                call_user(address, invec, inoutvec, len, handle, context)
            }
            (address, inner) => call_user(
                address as *const c_void,
                invec,
                inoutvec,
                len,
                handle,
                inner,
            ),
        };
    }
}

macro_rules! sixteen {
    ($($row:literal)*) => { [$([
        trampoline::<{ $row * 16 }>, trampoline::<{ $row * 16 + 1 }>, trampoline::<{ $row * 16 + 2 }>,
        trampoline::<{ $row * 16 + 3 }>, trampoline::<{ $row * 16 + 4 }>, trampoline::<{ $row * 16 + 5 }>,
        trampoline::<{ $row * 16 + 6 }>, trampoline::<{ $row * 16 + 7 }>, trampoline::<{ $row * 16 + 8 }>,
        trampoline::<{ $row * 16 + 9 }>, trampoline::<{ $row * 16 + 10 }>, trampoline::<{ $row * 16 + 11 }>,
        trampoline::<{ $row * 16 + 12 }>, trampoline::<{ $row * 16 + 13 }>, trampoline::<{ $row * 16 + 14 }>,
        trampoline::<{ $row * 16 + 15 }>,
    ]),*] };
}

static FUNCTIONS: [[Trampoline; 16]; TRAMPOLINES / 16] =
    sixteen!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

/// `MPI_OP_NULL` as the program knows it.
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

/// The index of a created operator that the program has not freed.
pub fn index(rt: &Runtime, op: VirtOp) -> Option<u32> {
    created(HandleKind::Op, op.0).filter(|&index| exists(rt, index))
}

/// Whether there is an operator of this index.
pub fn exists(rt: &Runtime, index: u32) -> bool {
    objects(rt).ops.get(index).is_some_and(|op| !op.freed)
}

/// Whether an operator is commutative; MPI's own are.
pub fn commutes(rt: &Runtime, op: VirtOp) -> bool {
    index(rt, op).is_none_or(|index| objects(rt).ops.get(index).is_some_and(|op| op.commutes))
}

/// Makes a real operator and tells which trampoline it has.
fn make(rt: &Runtime, op: &Op) -> Result<(RealOp, usize), c_int> {
    let Some(number) = rt.bindings.borrow_mut().take(op.function) else {
        log::error!(
            "the program has more than {TRAMPOLINES} operators at a time, which is not supported; free some"
        );
        return Err(ERR_NO_MEM);
    };
    let function: callbacks::UserFunction<RealDatatype> = Some(FUNCTIONS[number / 16][number % 16]);
    let mut new = real_op(rt, null_handle(rt));
    // SAFETY: a function of the type that the real library calls.
    let rc = unsafe {
        let create = if op.is_large {
            real::PMPI_Op_create_c
        } else {
            real::PMPI_Op_create
        };
        create(function, c_int::from(op.commutes), &mut new)
    };
    if rc == SUCCESS {
        return Ok((new, number));
    }
    rt.bindings.borrow_mut().give_up(number);
    Err(rc)
}

fn connect(rt: &Runtime, index: u32, (real, number): (RealOp, usize)) {
    handles::set_real(rt, HandleKind::Op, index, real.0);
    rt.bindings.borrow_mut().assign(index, number);
}

/// A new operator that calls the function at this address of the user side.
pub fn create(rt: &Runtime, address: u64, commutes: bool, is_large: bool) -> Result<VirtOp, c_int> {
    let op = Op {
        function: Function { address, inner: 0 },
        commutes,
        is_large,
        holders: 0,
        freed: false,
    };
    let made = make(rt, &op)?;
    let index = objects_mut(rt).ops.insert(op);
    connect(rt, index, made);
    Ok(VirtOp(handles::virtual_handle(HandleKind::Op, index)))
}

/// Whatever calls the operator's function hands it this address of another one, too. Whether there is such an operator.
pub fn set_inner(rt: &Runtime, op: VirtOp, inner: u64) -> bool {
    let Some(index) = index(rt, op) else {
        return false;
    };
    let function = objects_mut(rt).ops.get_mut(index).map(|op| {
        op.function.inner = inner;
        op.function
    });
    let mut bindings = rt.bindings.borrow_mut();
    if let (Some(function), Some(&Some(number))) = (function, bindings.of_op.get(index as usize)) {
        bindings.functions[number] = function;
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
    collect(rt, index)
}

/// It stays, though the program may free it, until [`release`].
pub fn retain(rt: &Runtime, op: VirtOp) {
    if let Some(index) = created(HandleKind::Op, op.0)
        && let Some(op) = objects_mut(rt).ops.get_mut(index)
    {
        op.holders += 1;
    }
}

pub fn release(rt: &Runtime, op: VirtOp) {
    let Some(index) = created(HandleKind::Op, op.0) else {
        return;
    };
    match objects_mut(rt).ops.get_mut(index) {
        Some(op) => op.holders = op.holders.saturating_sub(1),
        None => return,
    }
    collect(rt, index);
}

/// Frees one that nobody needs.
fn collect(rt: &Runtime, index: u32) -> c_int {
    if objects(rt)
        .ops
        .get(index)
        .is_some_and(|op| op.freed && op.holders == 0)
    {
        objects_mut(rt).ops.remove(index);
        return drop_real(rt, index);
    }
    SUCCESS
}

fn drop_real(rt: &Runtime, index: u32) -> c_int {
    let mut op = real_op(rt, VirtOp(handles::virtual_handle(HandleKind::Op, index)));
    handles::set_real(rt, HandleKind::Op, index, std::ptr::null_mut());
    rt.bindings.borrow_mut().unassign(index);
    if op.0.is_null() {
        return SUCCESS;
    }
    // SAFETY: an operator of ours; a reduction that uses it holds it in the real library.
    unsafe { real::PMPI_Op_free(&mut op) }
}

/// Frees all real operators.
pub fn release_all(rt: &Runtime) {
    let all: Vec<u32> = objects(rt).ops.iter().map(|(index, _)| index).collect();
    for index in all {
        drop_real(rt, index);
    }
}

/// Makes the real operators from their recipes.
pub fn rebuild(rt: &Runtime) {
    for (index, op) in objects(rt).ops.iter() {
        match make(rt, op) {
            Ok(made) => connect(rt, index, made),
            Err(rc) => super::not_made_again(&format!("operator {index}"), rc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bindings, FUNCTIONS, Function, TRAMPOLINES};
    use std::collections::HashSet;

    #[test]
    fn every_trampoline_is_another_function() {
        let addresses: HashSet<usize> = FUNCTIONS
            .iter()
            .flatten()
            .map(|&function| function as usize)
            .collect();
        assert_eq!(addresses.len(), TRAMPOLINES);
    }

    #[test]
    fn trampolines_are_used_again_as_late_as_possible() {
        let mut bindings = Bindings::new();
        let at = |address| Function { address, inner: 0 };
        assert_eq!(
            (bindings.take(at(10)), bindings.take(at(11))),
            (Some(0), Some(1))
        );
        bindings.assign(3, 0);
        bindings.unassign(3);
        bindings.unassign(3);
        for number in 2..TRAMPOLINES {
            assert_eq!(bindings.take(at(number as u64)), Some(number));
        }
        assert_eq!(bindings.functions[0].address, 10);
        assert_eq!(bindings.take(at(99)), Some(0));
        assert_eq!(bindings.functions[0].address, 99);
        assert_eq!(bindings.take(at(99)), None);
    }
}
