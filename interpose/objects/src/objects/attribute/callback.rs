//! Calls of the program's copy and delete functions.
#![allow(unsafe_code)]

use super::keyvals::{CallbackProxies, Keyval};
use super::value::AttributeValue;
use crate::Runtime;
use crate::abi;
use crate::arch::{call_program, call_program_through, call_program_with_six};
use crate::errors::SUCCESS;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// Represents `MPI_COMM_DUP_FN`, `MPI_TYPE_DUP_FN` and `MPI_WIN_DUP_FN`; not an address.
pub const DUPLICATE: u64 = 1;

/// `MPIR_ATTR_AINT` of MPICH: an attribute that is an integer of address size.
const INTEGER: c_int = 1;

/// MPICH's `MPII_Attr_copy_proxy`, which calls the function that is the first argument.
type CopyProxy = extern "C" fn(u64, c_int, c_int, u64, c_int, u64, *mut u64, *mut c_int) -> c_int;
type DeleteProxy = extern "C" fn(u64, c_int, c_int, c_int, u64, u64) -> c_int;

/// Arguments and results of a call of a proxy.
struct ProxyCall {
    proxy: CallbackProxies,
    function: u64,
    object: c_int,
    key: c_int,
    extra_state: u64,
    value: u64,
    value_out: u64,
    flag: c_int,
}

extern "C" fn copy_by_proxy(call: &mut ProxyCall) -> u64 {
    // SAFETY: a function of this type, which MPICH's bindings have registered.
    let proxy: CopyProxy = unsafe { std::mem::transmute(call.proxy.copy as usize) };
    let (value_out, flag) = (&raw mut call.value_out, &raw mut call.flag);
    proxy(
        call.function,
        call.object,
        call.key,
        call.extra_state,
        INTEGER,
        call.value,
        value_out,
        flag,
    ) as u64
}

extern "C" fn delete_by_proxy(call: &mut ProxyCall) -> u64 {
    // SAFETY: a delete function of this type, which MPICH's bindings have registered.
    let proxy: DeleteProxy = unsafe { std::mem::transmute(call.proxy.delete as usize) };
    proxy(
        call.function,
        call.object,
        call.key,
        INTEGER,
        call.value,
        call.extra_state,
    ) as u64
}

/// Calls `int copy(object, keyval, extra_state, attribute_val_in, *attribute_val_out, *flag)`.
///
/// Returns the value for the new object, or `None` if it gets no attribute with this key. Makes no
/// call for a key without a copy function or with [`DUPLICATE`].
pub(super) fn copy(
    rt: &Runtime,
    keyval: &Keyval,
    object: u64,
    key: c_int,
    value: AttributeValue,
) -> Result<Option<AttributeValue>, c_int> {
    let Keyval {
        copy: function,
        extra_state,
        ..
    } = *keyval;
    match function {
        0 => return Ok(None),
        DUPLICATE => return value.duplicate().map(Some),
        _ => {}
    }
    let value = value.as_seen_by(keyval.language);
    let (object, key) = (
        abi::handle_for_program(rt, keyval.kind.handle_kind(), object),
        abi::integer_for_program(Domain::Keyval, key),
    );
    let (mut value_out, mut flag) = (0u64, 0 as c_int);
    let rc = match keyval.proxy {
        Some(proxy) => {
            let mut call = proxy_call(keyval, proxy, function, object, key, value);
            // SAFETY: MPI requires the program's functions to be valid; the program has called the
            // MPI procedure that runs.
            let rc = unsafe { call_program_through(copy_by_proxy, &mut call) as c_int };
            (value_out, flag) = (call.value_out, call.flag);
            rc
        }
        None => {
            let results = [&raw mut value_out as u64, &raw mut flag as u64];
            let arguments = [
                object,
                key as u32 as u64,
                extra_state,
                value,
                results[0],
                results[1],
            ];
            // SAFETY: a copy function, which MPI requires to be valid, not a constant. The program
            // has called the MPI procedure that runs. The pointers are valid until the function
            // returns.
            unsafe { call_program_with_six(function as *const c_void, arguments) as c_int }
        }
    };
    match rc {
        SUCCESS if flag != 0 => AttributeValue::new(value_out, keyval.language).map(Some),
        SUCCESS => Ok(None),
        rc => Err(abi::integer_from_program(Domain::ErrorCode, rc)),
    }
}

fn proxy_call(
    keyval: &Keyval,
    proxy: CallbackProxies,
    function: u64,
    object: u64,
    key: c_int,
    value: u64,
) -> ProxyCall {
    ProxyCall {
        proxy,
        function,
        object: object as c_int,
        key,
        extra_state: keyval.extra_state,
        value,
        value_out: 0,
        flag: 0,
    }
}

/// True if a key has functions of the program.
pub(super) fn has_callbacks(keyval: &Keyval) -> bool {
    keyval.delete != 0 || ![0, DUPLICATE].contains(&keyval.copy)
}

/// Calls `int delete(object, keyval, attribute_val, extra_state)`, if the key has such a function.
pub(super) fn delete(
    rt: &Runtime,
    keyval: &Keyval,
    object: u64,
    key: c_int,
    value: AttributeValue,
) -> c_int {
    let Keyval {
        delete: function,
        extra_state,
        ..
    } = *keyval;
    if function == 0 {
        return SUCCESS;
    }
    let value = value.as_seen_by(keyval.language);
    let (object, key) = (
        abi::handle_for_program(rt, keyval.kind.handle_kind(), object),
        abi::integer_for_program(Domain::Keyval, key),
    );
    // SAFETY: MPI requires the program's delete function to be valid; the program has called the
    // MPI procedure that runs.
    let rc = unsafe {
        match keyval.proxy {
            Some(proxy) => call_program_through(
                delete_by_proxy,
                &mut proxy_call(keyval, proxy, function, object, key, value),
            ),
            None => call_program(
                function as *const c_void,
                [object, key as u32 as u64, value, extra_state, 0],
            ),
        }
    } as c_int;
    abi::integer_from_program(Domain::ErrorCode, rc)
}
