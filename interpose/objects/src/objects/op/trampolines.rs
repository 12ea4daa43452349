//! Trampolines: functions that the real library calls in a reduction.
//!
//! Each trampoline calls the reduction function of the program that is bound to the trampoline.
#![allow(unsafe_code)]

use super::bindings::TRAMPOLINES;
use crate::DOOR;
use crate::abi;
use crate::arch::{call_user, callback_code};
use crate::generated::HandleKind;
use crate::handles::VirtDatatype;
use crate::objects::datatype;
use std::ffi::{c_int, c_void};
use understudy_mpi::call;
use understudy_mpi::real_types::RealDatatype;

type Trampoline = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut RealDatatype);

/// Calls the program's function that is bound to trampoline `NUMBER`.
///
/// `len` points to an int or an `MPI_Count`, as the program's function requires.
///
/// # Safety
/// Must be called by the real library during a reduction.
unsafe extern "C" fn trampoline<const NUMBER: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *mut RealDatatype,
) {
    let rt = DOOR.get();
    let _callback = call::Callback::new();
    let function = rt.objects.bindings.borrow().functions[NUMBER];
    // SAFETY: the real library passes a pointer to the datatype.
    let handle: VirtDatatype =
        datatype::virtual_of(rt, unsafe { understudy_mpi::abi::datatype_at(datatype) });
    let mut handle = abi::handle_for_program(rt, HandleKind::Datatype, handle.0 as u64);
    // SAFETY: MPI requires the program's function to have this type. The real library runs because
    // the program has called an MPI procedure.
    unsafe {
        let [invec, inoutvec, len, handle] = [
            invec as u64,
            inoutvec as u64,
            len as u64,
            &raw mut handle as u64,
        ];
        match (function.address, function.inner) {
            (callback, 0) => {
                let (address, context) = callback_code(callback);
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
        trampoline::<{ $row * 16 }>, trampoline::<{ $row * 16 + 1 }>,
        trampoline::<{ $row * 16 + 2 }>, trampoline::<{ $row * 16 + 3 }>,
        trampoline::<{ $row * 16 + 4 }>, trampoline::<{ $row * 16 + 5 }>,
        trampoline::<{ $row * 16 + 6 }>, trampoline::<{ $row * 16 + 7 }>,
        trampoline::<{ $row * 16 + 8 }>, trampoline::<{ $row * 16 + 9 }>,
        trampoline::<{ $row * 16 + 10 }>, trampoline::<{ $row * 16 + 11 }>,
        trampoline::<{ $row * 16 + 12 }>, trampoline::<{ $row * 16 + 13 }>,
        trampoline::<{ $row * 16 + 14 }>, trampoline::<{ $row * 16 + 15 }>,
    ]),*] };
}

pub(super) static FUNCTIONS: [[Trampoline; 16]; TRAMPOLINES / 16] =
    sixteen!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, TRAMPOLINES};
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
}
