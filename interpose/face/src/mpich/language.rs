//! Functions of libmpi without MPI names, which MPICH's bindings for Fortran and C++ call.
//!
//! The bindings are `libmpichfort` and the former bindings for C++. In Fortran, attributes are
//! integers of the size of an address (MPI 4.1, 7.7 and 19.3.7). MPICH passes the type of integer
//! with each attribute.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::large::thunk;
use crate::entry::{ENTRY, passes_through, slot_count};
use crate::messages::print;
use crate::sys;
use core::ffi::{c_int, c_void};
use understudy_abi::{fortran, libc_procedures};
use understudy_catalogue::message;

type Get = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void, *mut c_int) -> c_int;
type Set = unsafe extern "C" fn(c_int, c_int, isize) -> c_int;

/// `MPIR_ATTR_PTR`: type of attribute that C procedures pass.
const POINTER: c_int = 0;
/// `MPIR_ATTR_INT`: type of attribute that procedures of MPI-1 pass.
const INT: c_int = 3;

/// Value of the two upper bits of predefined keys.
///
/// The values of predefined attributes are addresses of an int, except for [`WIN_BASE`] and
/// [`WIN_SIZE`].
const PREDEFINED: c_int = 1;
const WIN_BASE: c_int = 0x6600_0001;
const WIN_SIZE: c_int = 0x6600_0003;

/// Returns the key with which C procedures access an attribute of this kind.
///
/// An offset in the key marks the value as a Fortran integer for the runtime. The real library,
/// which an unprotected program calls, receives the key without the offset.
fn key_of_kind(key: c_int, kind: c_int) -> c_int {
    let is_unmarked = kind == POINTER || key >> 30 == PREDEFINED || passes_through();
    if is_unmarked {
        key
    } else {
        key + fortran::INTEGER_KEY_OFFSET
    }
}

/// Calls the C procedure `real`, and stores the attribute as the bindings expect it.
///
/// # Safety
/// The arguments must be those of the bindings: `value` has space for an address, or for an int if
/// the bindings request an int.
unsafe fn get(
    real: Get,
    object: c_int,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    kind: c_int,
) -> c_int {
    let mut attribute = core::ptr::null_mut::<c_void>();
    // Fortran's values of predefined keys are C's, which are odd, plus one.
    let key = match key >> 30 == PREDEFINED && kind != POINTER {
        true => key - 1 + (key & 1),
        false => key,
    };
    // SAFETY: the caller guarantees that `value` has space for the requested attribute. The value
    // of a predefined attribute other than `WIN_BASE` is the address of an integer.
    unsafe {
        let rc = real(object, key_of_kind(key, kind), &mut attribute, flag);
        if rc != 0 || flag.read() == 0 {
            return rc;
        }
        let integer = match key {
            WIN_BASE => attribute as isize,
            WIN_SIZE if kind != POINTER => attribute.cast::<isize>().read(),
            _ if key >> 30 == PREDEFINED && kind != POINTER => {
                attribute.cast::<c_int>().read() as isize
            }
            _ => attribute as isize,
        };
        match kind {
            INT => value.cast::<c_int>().write(integer as c_int),
            _ => value.cast::<isize>().write(integer),
        }
        rc
    }
}

macro_rules! attributes {
    ($($get:ident $real_get:ident $set:ident $real_set:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            object: c_int,
            key: c_int,
            value: *mut c_void,
            flag: *mut c_int,
            kind: c_int,
        ) -> c_int {
            // SAFETY: MPICH's bindings pass valid arguments; the thunk has this type.
            unsafe { get(thunk!($real_get: Get), object, key, value, flag, kind) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(
            object: c_int, key: c_int, value: isize, kind: c_int
        ) -> c_int {
            // SAFETY: MPICH's bindings pass valid arguments; the thunk has this type.
            unsafe { thunk!($real_set: Set)(object, key_of_kind(key, kind), value) }
        }
    )* };
}

attributes! {
    MPII_Comm_get_attr PMPI_Comm_get_attr MPII_Comm_set_attr PMPI_Comm_set_attr;
    MPII_Type_get_attr PMPI_Type_get_attr MPII_Type_set_attr PMPI_Type_set_attr;
    MPII_Win_get_attr PMPI_Win_get_attr MPII_Win_set_attr PMPI_Win_set_attr;
}

/// Makes a call of the runtime, like a thunk.
///
/// # Safety
/// The slot must be that of a function with at most these three arguments.
#[unsafe(naked)]
unsafe extern "C" fn call_runtime(first: usize, second: usize, third: usize, slot: usize) {
    core::arch::naked_asm!("mov eax, ecx", "jmp qword ptr [rip + {entry}]", entry = sym ENTRY)
}

/// Ends an unprotected program that has opened the bindings late.
///
/// Such a program would need the function of the real library.
fn refuse_unprotected(name: &str) {
    if passes_through() {
        print(&message::not_in_late_program(name));
        sys::exit(understudy_catalogue::exit_status::REFUSED);
    }
}

/// Registers the two functions through which the callbacks of a key are called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Keyval_set_proxy(key: c_int, copy: usize, delete: usize) {
    refuse_unprotected("MPII_Keyval_set_proxy");
    // SAFETY: the slot's function has these arguments.
    unsafe {
        call_runtime(
            key as u32 as usize,
            copy,
            delete,
            slot_count() + libc_procedures::KEYVAL_PROXY_SLOT,
        )
    }
}

/// Marks the callbacks of a generalized request as subroutines of Fortran.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Grequest_set_lang_f77(request: c_int) {
    refuse_unprotected("MPII_Grequest_set_lang_f77");
    // SAFETY: the slot's function has the first of these arguments, and ignores the others.
    unsafe {
        call_runtime(
            request as u32 as usize,
            0,
            0,
            slot_count() + libc_procedures::GREQUEST_FORTRAN_SLOT,
        )
    }
}

macro_rules! refused {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {
            print(&message::CXX_CALLBACKS);
            sys::exit(understudy_catalogue::exit_status::REFUSED);
        }
    )* };
}

refused! { MPII_Op_set_cxx MPII_Errhandler_set_cxx }
