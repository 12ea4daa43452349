//! Calls of the program's copy and delete functions.
#![allow(unsafe_code)]

use super::Keyval;
use crate::abi;
use crate::arch::{call_user, call_user_with_six};
use crate::errors::SUCCESS;
use crate::objects::Runtime;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// `MPI_COMM_DUP_FN` of the standard ABI, which is no address.
const DUPLICATE: u64 = 1;

/// Calls `int copy(object, keyval, extra_state, attribute_val_in, *attribute_val_out, *flag)`: what the copy gets; nothing if it gets no attribute with this key.
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
    let (mut value_out, mut flag) = (0u64, 0 as c_int);
    let places = [&raw mut value_out as u64, &raw mut flag as u64];
    let arguments = [object, key as u32 as u64, extra_state, value, places[0], places[1]];
    // SAFETY: a copy function of the program, and no constant; a handler called by the program runs, and the places are valid until it returns.
    let rc = unsafe { call_user_with_six(function as *const c_void, arguments) as c_int };
    match rc {
        SUCCESS => Ok((flag != 0).then_some(value_out)),
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
