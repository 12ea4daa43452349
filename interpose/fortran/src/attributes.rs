//! Attributes as Fortran's integers of the size of an address (MPI 4.1, 7.7 and 19.3.7).
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
    fn of(value: isize) -> Self;
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

/// Callbacks of a key with their extra state.
///
/// The C callbacks of the key receive its address as their extra state.
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

/// # Safety
/// MPI must call this function with a [`AttributeKey`] as the extra state.
unsafe extern "C" fn copy<T: Integer, O: AttributeOwner>(
    object: Handle,
    mut keyval: c_int,
    key: *mut c_void,
    value: *mut c_void,
    copied: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise; the program's callback takes the addresses of these.
    unsafe {
        let key = &*key.cast::<AttributeKey<T>>();
        let (mut number, mut extra_state) = (O::NUMBER(object), T::of(key.extra_state));
        let (mut value, mut result) = (T::of(value as isize), T::of(0));
        let (mut wanted, mut rc) = (0, SUCCESS);
        (key.copy)(
            &mut number,
            &mut keyval,
            &mut extra_state,
            &mut value,
            &mut result,
            &mut wanted,
            &mut rc,
        );
        if rc == SUCCESS && wanted != 0 {
            *copied = result.value() as *mut c_void;
        }
        *flag = c_int::from(wanted != 0);
        rc
    }
}

/// # Safety
/// As [`copy`].
unsafe extern "C" fn delete<T: Integer, O: AttributeOwner>(
    object: Handle,
    mut keyval: c_int,
    value: *mut c_void,
    key: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise; the program's callback takes the addresses of these.
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

/// Creates a key.
///
/// The key's block is never freed: attributes may outlive their key (MPI 4.1, 7.7.2).
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn create_key<T: Integer, O: AttributeOwner>(
    (copies, deletes): (FortranCopy<T>, FortranDelete<T>),
    extra_state: *const T,
    [keyval, ierr]: [*mut c_int; 2],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let key = AttributeKey {
            copy: copies,
            delete: deletes,
            extra_state: extra_state.read().value(),
        };
        let key = Box::into_raw(Box::new(key)).cast();
        let copy = (copy::<T, O> as Copy as *const c_void)
            .map_addr(|address| address | fortran::INTEGER_FUNCTION_MARK);
        put(ierr, O::CREATE_KEY(copy, delete::<T, O>, keyval, key));
    }
}

pub unsafe extern "C" fn comm_create_keyval(
    copies: FortranCopy<isize>,
    deletes: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { create_key::<isize, Comm>((copies, deletes), extra_state, [keyval, ierr]) }
}

pub unsafe extern "C" fn keyval_create(
    copies: FortranCopy<c_int>,
    deletes: FortranDelete<c_int>,
    keyval: *mut c_int,
    extra_state: *const c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { create_key::<c_int, Comm>((copies, deletes), extra_state, [keyval, ierr]) }
}

pub unsafe extern "C" fn type_create_keyval(
    copies: FortranCopy<isize>,
    deletes: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { create_key::<isize, Datatype>((copies, deletes), extra_state, [keyval, ierr]) }
}

/// First key in Open MPI that is no predefined attribute of communicators.
///
/// The values of the predefined attributes are addresses in C.
const FIRST_OF_WINDOWS: c_int = 7;

/// Returns the key with which C procedures access an attribute that is an integer.
///
/// Keys of predefined attributes are unchanged, because their values are addresses in C.
fn c_key(key: c_int) -> c_int {
    if key > WIN_MODEL {
        key + fortran::INTEGER_KEY_OFFSET
    } else {
        key
    }
}

/// Stores the attribute that `ask` returns, with its flag and error code.
///
/// # Safety
/// The pointers must be the program's; the value of a predefined attribute must be an address.
unsafe fn store_attribute<T: Integer>(
    ask: impl FnOnce(*mut *mut c_void, *mut c_int) -> c_int,
    is_predefined: bool,
    value: *mut T,
    [flag, ierr]: [*mut c_int; 2],
) {
    let (mut found, mut is_set) = (core::ptr::null_mut(), 0);
    let rc = ask(&mut found, &mut is_set);
    if rc == SUCCESS && is_set != 0 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let found = if is_predefined {
                *found.cast::<c_int>() as isize
            } else {
                found as isize
            };
            value.write(T::of(found));
        }
    }
    put(flag, logical(is_set != 0));
    put(ierr, rc);
}

/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn of_comm<T: Integer>(
    comm: *const c_int,
    keyval: *const c_int,
    value: *mut T,
    places: [*mut c_int; 2],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (comm, keyval) = (PMPI_Comm_f2c(*comm), *keyval);
        let is_predefined = (0..FIRST_OF_WINDOWS).contains(&keyval);
        store_attribute(
            |found, is_set| PMPI_Comm_get_attr(comm, c_key(keyval), found, is_set),
            is_predefined,
            value,
            places,
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
    // SAFETY: guaranteed by the caller.
    unsafe { of_comm(comm, keyval, value, [flag, ierr]) }
}

pub unsafe extern "C" fn attr_get(
    comm: *const c_int,
    keyval: *const c_int,
    value: *mut c_int,
    flag: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { of_comm(comm, keyval, value, [flag, ierr]) }
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
            |found, is_set| PMPI_Type_get_attr(datatype, c_key(keyval), found, is_set),
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
    copies: FortranCopy<isize>,
    deletes: FortranDelete<isize>,
    keyval: *mut c_int,
    extra_state: *const isize,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe { create_key::<isize, Win>((copies, deletes), extra_state, [keyval, ierr]) }
}

/// Key of MPI_WIN_SIZE in Open MPI, whose value has the size of an address.
///
/// The next constants are the keys of the predefined attributes MPI_WIN_DISP_UNIT and
/// MPI_WIN_MODEL. MPI_WIN_CREATE_FLAVOR lies between them. MPI_WIN_BASE precedes MPI_WIN_SIZE; its
/// value is an address in Fortran, too.
const WIN_SIZE: c_int = 8;
const WIN_DISP_UNIT: c_int = 9;
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
        let ask = |found: *mut *mut c_void, is_set: *mut c_int| {
            let rc = PMPI_Win_get_attr(win, c_key(keyval), found, is_set);
            if rc == SUCCESS && *is_set != 0 && keyval == WIN_SIZE {
                *found = found.read().cast::<*mut c_void>().read();
            }
            rc
        };
        let is_integer = (WIN_DISP_UNIT..=WIN_MODEL).contains(&keyval);
        store_attribute(ask, is_integer, value, [flag, ierr]);
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
