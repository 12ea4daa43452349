//! Calls of the program's copy and delete functions.
#![allow(unsafe_code)]

use super::Keyval;
use crate::abi;
use crate::arch::call_user;
use crate::errors::SUCCESS;
use crate::objects::Runtime;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// `int copy(object, keyval, extra_state, attribute_val_in, *attribute_val_out, *flag)`
type CopyFn = unsafe extern "C" fn(u64, c_int, u64, u64, *mut u64, *mut c_int) -> c_int;

/// `MPI_COMM_DUP_FN` of the standard ABI, which is no address.
const DUPLICATE: u64 = 1;

/// The arguments of a copy function: one more than [`call_user`] passes on.
#[repr(C)]
struct Copying {
    function: CopyFn,
    object: u64,
    key: c_int,
    extra_state: u64,
    value_in: u64,
    value_out: u64,
    flag: c_int,
}

/// Runs on the program's stack.
///
/// # Safety
/// The argument must be valid, and its function one of the program.
unsafe extern "C" fn call_copy(copying: *mut Copying) -> c_int {
    // SAFETY: the caller's promise. No reference is held: the two results are written through pointers.
    unsafe {
        let Copying {
            function,
            object,
            key,
            extra_state,
            value_in,
            ..
        } = copying.read();
        let (value_out, flag) = (&raw mut (*copying).value_out, &raw mut (*copying).flag);
        function(object, key, extra_state, value_in, value_out, flag)
    }
}

/// What the copy gets; nothing if it gets no attribute with this key.
pub(super) fn copy(rt: &Runtime, keyval: &Keyval, object: u64, key: c_int, value: u64) -> Result<Option<u64>, c_int> {
    let Keyval {
        copy: function,
        extra_state,
        ..
    } = *keyval;
    match function {
        0 => return Ok(None),
        DUPLICATE => return Ok(Some(value)),
        _ => {}
    }
    let (object, key) = (
        abi::for_program(rt, keyval.kind.handles(), object),
        abi::integer_for_program(Domain::Keyval, key),
    );
    // SAFETY: a copy function of the program; the address is none of the constants.
    let function = unsafe { std::mem::transmute::<*const c_void, CopyFn>(function as *const c_void) };
    let mut copying = Copying {
        function,
        object,
        key,
        extra_state,
        value_in: value,
        value_out: 0,
        flag: 0,
    };
    // SAFETY: a handler called by the program runs; the argument is valid until the call returns.
    let rc = unsafe {
        let function: unsafe extern "C" fn(*mut Copying) -> c_int = call_copy;
        call_user(function as *const c_void, &raw mut copying as u64, 0, 0, 0, 0) as c_int
    };
    match rc {
        SUCCESS => Ok((copying.flag != 0).then_some(copying.value_out)),
        rc => Err(abi::integer_of_program(Domain::ErrorCode, rc)),
    }
}

/// Calls `int delete(object, keyval, attribute_val, extra_state)`.
pub(super) fn delete(rt: &Runtime, keyval: &Keyval, object: u64, key: c_int, value: u64) -> c_int {
    let Keyval {
        delete: function,
        extra_state,
        ..
    } = *keyval;
    if function == 0 {
        return SUCCESS;
    }
    let (object, key) = (
        abi::for_program(rt, keyval.kind.handles(), object),
        abi::integer_for_program(Domain::Keyval, key),
    );
    // SAFETY: a delete function of the program; a handler called by the program runs.
    let rc = unsafe {
        call_user(
            function as *const c_void,
            object,
            key as u32 as u64,
            value,
            extra_state,
            0,
        ) as c_int
    };
    abi::integer_of_program(Domain::ErrorCode, rc)
}
