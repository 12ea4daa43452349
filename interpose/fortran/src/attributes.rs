//! Attributes, whose values are integers in Fortran and pointers in C.
//!
//! MPI 4.1, 7.7 and 19.3.7, define the conversions.
//!
//! A key that Fortran creates has callbacks in Fortran. The C procedures receive callbacks of this
//! module, which convert the arguments and call the program's callbacks. The integers have the
//! size of an address. Marks in the key and in the address of the copy function show the runtime
//! that the values are integers ([`understudy_abi::fortran`]).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::mpi::*;
use alloc::boxed::Box;
use core::ffi::{c_int, c_void};
use understudy_abi::fortran;

type Copy = unsafe extern "C" fn(
    Handle,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
type Delete = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn PMPI_Comm_create_keyval(
        copy: *const c_void,
        delete: Delete,
        keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    fn PMPI_Comm_get_attr(
        comm: Handle,
        keyval: c_int,
        value: *mut *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    fn PMPI_Comm_set_attr(comm: Handle, keyval: c_int, value: *mut c_void) -> c_int;
    fn PMPI_Type_create_keyval(
        copy: *const c_void,
        delete: Delete,
        keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    fn PMPI_Type_get_attr(
        datatype: Handle,
        keyval: c_int,
        value: *mut *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    fn PMPI_Type_set_attr(datatype: Handle, keyval: c_int, value: *mut c_void) -> c_int;
    fn PMPI_Win_create_keyval(
        copy: *const c_void,
        delete: Delete,
        keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    fn PMPI_Win_get_attr(
        win: Handle,
        keyval: c_int,
        value: *mut *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    fn PMPI_Win_set_attr(win: Handle, keyval: c_int, value: *mut c_void) -> c_int;
}

/// An integer of a callback or attribute.
///
/// The integer's size is that of an address, or that of a C `int` in procedures of MPI-1 (MPI 4.1,
/// 16.1).
trait Integer: Sized {
    /// Truncates the value to this type.
    fn of(value: isize) -> Self;
    /// Extends this integer to the size of an address.
    fn value(self) -> isize;
}

impl Integer for isize {
    fn of(value: isize) -> isize {
        value
    }
    fn value(self) -> isize {
        self
    }
}

impl Integer for c_int {
    fn of(value: isize) -> c_int {
        value as c_int
    }
    fn value(self) -> isize {
        self as isize
    }
}

type FortranCopy<T> =
    unsafe extern "C" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut T, *mut c_int, *mut c_int);
type FortranDelete<T> = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut c_int);

/// Fortran callbacks of a key, with their extra state.
///
/// The key's C callbacks receive the address of this structure as their extra state.
struct AttributeKey<T> {
    copy: FortranCopy<T>,
    delete: FortranDelete<T>,
    extra_state: isize,
}

/// Conversion of an object's handle to its number in Fortran.
type HandleToNumber = unsafe extern "C" fn(Handle) -> c_int;

/// C procedure that creates a key.
type CreateKey = unsafe extern "C" fn(*const c_void, Delete, *mut c_int, *mut c_void) -> c_int;

/// Type of object that has attributes.
trait AttributeOwner {
    const NUMBER: HandleToNumber;
    const CREATE_KEY: CreateKey;
}

struct Comm;
struct Datatype;
struct Win;

impl AttributeOwner for Comm {
    const NUMBER: HandleToNumber = PMPI_Comm_c2f;
    const CREATE_KEY: CreateKey = PMPI_Comm_create_keyval;
}

impl AttributeOwner for Win {
    const NUMBER: HandleToNumber = PMPI_Win_c2f;
    const CREATE_KEY: CreateKey = PMPI_Win_create_keyval;
}

impl AttributeOwner for Datatype {
    const NUMBER: HandleToNumber = PMPI_Type_c2f;
    const CREATE_KEY: CreateKey = PMPI_Type_create_keyval;
}

/// C callback that calls a key's copy subroutine.
///
/// # Safety
/// MPI must call this function with an [`AttributeKey`] as the extra state.
unsafe extern "C" fn copy<T: Integer, O: AttributeOwner>(
    object: Handle,
    mut keyval: c_int,
    key: *mut c_void,
    value: *mut c_void,
    copied: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the extra state is an `AttributeKey`; Fortran passes arguments by their addresses.
    unsafe {
        let key = &*key.cast::<AttributeKey<T>>();
        let (mut number, mut extra_state) = (O::NUMBER(object), T::of(key.extra_state));
        let (mut value, mut result) = (T::of(value as isize), T::of(0));
        let (mut is_copied, mut rc) = (0, SUCCESS);
        (key.copy)(
            &mut number,
            &mut keyval,
            &mut extra_state,
            &mut value,
            &mut result,
            &mut is_copied,
            &mut rc,
        );
        if rc == SUCCESS && is_copied != 0 {
            *copied = result.value() as *mut c_void;
        }
        *flag = c_int::from(is_copied != 0);
        rc
    }
}

/// C callback that calls a key's delete subroutine.
///
/// # Safety
/// The requirements of [`copy`] apply.
unsafe extern "C" fn delete<T: Integer, O: AttributeOwner>(
    object: Handle,
    mut keyval: c_int,
    value: *mut c_void,
    key: *mut c_void,
) -> c_int {
    // SAFETY: the extra state is an `AttributeKey`; Fortran passes arguments by their addresses.
    unsafe {
        let key = &*key.cast::<AttributeKey<T>>();
        let (mut number, mut extra_state) = (O::NUMBER(object), T::of(key.extra_state));
        let (mut value, mut rc) = (T::of(value as isize), SUCCESS);
        (key.delete)(
            &mut number,
            &mut keyval,
            &mut value,
            &mut extra_state,
            &mut rc,
        );
        rc
    }
}

/// Creates a key with subroutines of the program as callbacks.
///
/// The [`AttributeKey`] is never freed, because attributes may outlive their key (MPI 4.1, 7.7.2).
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn create_key<T: Integer, O: AttributeOwner>(
    (copy_subroutine, delete_subroutine): (FortranCopy<T>, FortranDelete<T>),
    extra_state: *const T,
    [keyval, ierr]: [*mut c_int; 2],
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let key = AttributeKey {
            copy: copy_subroutine,
            delete: delete_subroutine,
            extra_state: extra_state.read().value(),
        };
        let key = Box::into_raw(Box::new(key)).cast();
        let copy = (copy::<T, O> as Copy as *const c_void)
            .map_addr(|address| address | fortran::INTEGER_FUNCTION_MARK);
        put(ierr, O::CREATE_KEY(copy, delete::<T, O>, keyval, key));
    }
}

pub unsafe extern "C" fn comm_create_keyval(
    copy_subroutine: FortranCopy<isize>,
    delete_subroutine: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create_key::<isize, Comm>(
            (copy_subroutine, delete_subroutine),
            extra_state,
            [keyval, ierr],
        )
    }
}

pub unsafe extern "C" fn keyval_create(
    copy_subroutine: FortranCopy<c_int>,
    delete_subroutine: FortranDelete<c_int>,
    keyval: *mut c_int,
    extra_state: *const c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create_key::<c_int, Comm>(
            (copy_subroutine, delete_subroutine),
            extra_state,
            [keyval, ierr],
        )
    }
}

pub unsafe extern "C" fn type_create_keyval(
    copy_subroutine: FortranCopy<isize>,
    delete_subroutine: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create_key::<isize, Datatype>(
            (copy_subroutine, delete_subroutine),
            extra_state,
            [keyval, ierr],
        )
    }
}

/// First predefined key of windows in Open MPI; lower predefined keys are those of communicators.
///
/// The values of communicators' predefined attributes are addresses of an int in C.
const FIRST_WIN_KEY: c_int = 7;

/// Returns the key with which C procedures access an attribute of this key.
///
/// The offset marks the value as an integer of Fortran for the runtime. Predefined keys, whose
/// values are addresses in C, are unchanged.
fn c_key(key: c_int) -> c_int {
    if key > WIN_MODEL {
        key + fortran::INTEGER_KEY_OFFSET
    } else {
        key
    }
}

/// Stores the attribute that `get` returns, with its flag and error code.
///
/// The attribute is the address of an int if `is_address` is true; the int is then stored.
///
/// # Safety
/// The pointers must be the program's.
unsafe fn store_attribute<T: Integer>(
    get: impl FnOnce(*mut *mut c_void, *mut c_int) -> c_int,
    is_address: bool,
    value: *mut T,
    [flag, ierr]: [*mut c_int; 2],
) {
    let (mut attribute, mut is_set) = (core::ptr::null_mut(), 0);
    let rc = get(&mut attribute, &mut is_set);
    if rc == SUCCESS && is_set != 0 {
        // SAFETY: the pointers are the program's, as the caller guarantees, and the standard
        // requires the program to pass valid ones. The attribute is an address of an int if
        // `is_address`.
        unsafe {
            let integer = if is_address {
                *attribute.cast::<c_int>() as isize
            } else {
                attribute as isize
            };
            value.write(T::of(integer));
        }
    }
    put(flag, logical(is_set != 0));
    put(ierr, rc);
}

/// Implements `MPI_COMM_GET_ATTR` and `MPI_ATTR_GET`.
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn get_comm_attribute<T: Integer>(
    comm: *const c_int,
    keyval: *const c_int,
    value: *mut T,
    flag_and_ierr: [*mut c_int; 2],
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (comm, keyval) = (PMPI_Comm_f2c(*comm), *keyval);
        let is_predefined = (0..FIRST_WIN_KEY).contains(&keyval);
        store_attribute(
            |attribute, is_set| PMPI_Comm_get_attr(comm, c_key(keyval), attribute, is_set),
            is_predefined,
            value,
            flag_and_ierr,
        );
    }
}

pub unsafe extern "C" fn comm_get_attr(
    comm: *const c_int,
    keyval: *const c_int,
    value: *mut isize,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { get_comm_attribute(comm, keyval, value, [flag, ierr]) }
}

pub unsafe extern "C" fn attr_get(
    comm: *const c_int,
    keyval: *const c_int,
    value: *mut c_int,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { get_comm_attribute(comm, keyval, value, [flag, ierr]) }
}

pub unsafe extern "C" fn type_get_attr(
    datatype: *const c_int,
    keyval: *const c_int,
    value: *mut isize,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let (datatype, keyval) = (PMPI_Type_f2c(*datatype), *keyval);
        store_attribute(
            |attribute, is_set| PMPI_Type_get_attr(datatype, c_key(keyval), attribute, is_set),
            false,
            value,
            [flag, ierr],
        );
    }
}

pub unsafe extern "C" fn comm_set_attr(
    comm: *const c_int,
    keyval: *const c_int,
    value: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    put(ierr, unsafe {
        PMPI_Comm_set_attr(PMPI_Comm_f2c(*comm), c_key(*keyval), *value as *mut c_void)
    });
}

pub unsafe extern "C" fn attr_put(
    comm: *const c_int,
    keyval: *const c_int,
    value: *const c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    put(ierr, unsafe {
        PMPI_Comm_set_attr(
            PMPI_Comm_f2c(*comm),
            c_key(*keyval),
            *value as isize as *mut c_void,
        )
    });
}

pub unsafe extern "C" fn type_set_attr(
    datatype: *const c_int,
    keyval: *const c_int,
    value: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    put(ierr, unsafe {
        PMPI_Type_set_attr(
            PMPI_Type_f2c(*datatype),
            c_key(*keyval),
            *value as *mut c_void,
        )
    });
}

pub unsafe extern "C" fn win_create_keyval(
    copy_subroutine: FortranCopy<isize>,
    delete_subroutine: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create_key::<isize, Win>(
            (copy_subroutine, delete_subroutine),
            extra_state,
            [keyval, ierr],
        )
    }
}

/// Open MPI's key of MPI_WIN_SIZE, whose attribute is the address of the size.
///
/// The preceding key is MPI_WIN_BASE, whose value is an address in C and in Fortran.
const WIN_SIZE: c_int = 8;
/// Open MPI's key of MPI_WIN_DISP_UNIT; MPI_WIN_CREATE_FLAVOR and MPI_WIN_MODEL follow.
///
/// The three attributes are addresses of an int.
const WIN_DISP_UNIT: c_int = 9;
/// Open MPI's key of MPI_WIN_MODEL, the last predefined key.
const WIN_MODEL: c_int = 11;

pub unsafe extern "C" fn win_get_attr(
    win: *const c_int,
    keyval: *const c_int,
    value: *mut isize,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires; the value of a
    // predefined attribute is an address.
    unsafe {
        let (win, keyval) = (PMPI_Win_f2c(*win), *keyval);
        let get = |attribute: *mut *mut c_void, is_set: *mut c_int| {
            let rc = PMPI_Win_get_attr(win, c_key(keyval), attribute, is_set);
            if rc == SUCCESS && *is_set != 0 && keyval == WIN_SIZE {
                *attribute = attribute.read().cast::<*mut c_void>().read();
            }
            rc
        };
        let is_address_of_int = (WIN_DISP_UNIT..=WIN_MODEL).contains(&keyval);
        store_attribute(get, is_address_of_int, value, [flag, ierr]);
    }
}

pub unsafe extern "C" fn win_set_attr(
    win: *const c_int,
    keyval: *const c_int,
    value: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    put(ierr, unsafe {
        PMPI_Win_set_attr(PMPI_Win_f2c(*win), c_key(*keyval), *value as *mut c_void)
    });
}
