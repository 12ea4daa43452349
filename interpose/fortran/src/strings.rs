//! Strings of a given length, filled up with blanks; values of info objects (MPI 4.1, 10).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::mpi::*;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

unsafe extern "C" {
    fn PMPI_Info_get(info: Handle, key: *const c_char, valuelen: c_int, value: *mut c_char, flag: *mut c_int) -> c_int;
    fn PMPI_Info_get_valuelen(info: Handle, key: *const c_char, valuelen: *mut c_int, flag: *mut c_int) -> c_int;
}

/// A string without the blanks around it, for C.
///
/// # Safety
/// A string of this length.
unsafe fn string(text: *const u8, length: c_int) -> Vec<u8> {
    // SAFETY: the caller's promise.
    let text = unsafe { core::slice::from_raw_parts(text, length.max(0) as usize) };
    let text = text.trim_ascii();
    text.iter().copied().chain([0]).collect()
}

/// Fills a string.
///
/// # Safety
/// A string of this length.
unsafe fn fill(place: *mut u8, length: c_int, text: &[u8]) {
    // SAFETY: the caller's promise.
    let place = unsafe { core::slice::from_raw_parts_mut(place, length.max(0) as usize) };
    let shown = text.len().min(place.len());
    place[..shown].copy_from_slice(&text[..shown]);
    place[shown..].fill(b' ');
}

/// What Open MPI's bindings make a string for C with, which they free.
///
/// # Safety
/// A string of this length, and a place for the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_string_f2c(text: *const u8, length: c_int, made: *mut *mut u8) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { *made = string(text, length).leak().as_mut_ptr() };
    SUCCESS
}

/// The way back.
///
/// # Safety
/// A string of C, and one of this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_string_c2f(text: *const c_char, place: *mut u8, length: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fill(place, length, core::ffi::CStr::from_ptr(text).to_bytes()) };
    SUCCESS
}

/// The value of a key, if it has one.
///
/// # Safety
/// Arguments of the program, as the standard says.
unsafe fn value_of(info: *const c_int, key: &[u8]) -> Result<Option<Vec<u8>>, c_int> {
    let (mut length, mut flag) = (0, 0);
    // SAFETY: the caller's promise; there is room for the value and its end.
    unsafe {
        let (info, key) = (PMPI_Info_f2c(*info), key.as_ptr().cast());
        let rc = PMPI_Info_get_valuelen(info, key, &mut length, &mut flag);
        if rc != SUCCESS || flag == 0 {
            return if rc == SUCCESS { Ok(None) } else { Err(rc) };
        }
        let mut value = vec![0; length as usize + 1];
        let rc = PMPI_Info_get(info, key, length, value.as_mut_ptr().cast(), &mut flag);
        value.truncate(length as usize);
        if rc == SUCCESS {
            Ok((flag != 0).then_some(value))
        } else {
            Err(rc)
        }
    }
}

/// Hands out what was found: `show` puts the text where it belongs.
fn answer(found: Result<Option<Vec<u8>>, c_int>, flag: *mut c_int, ierr: *mut c_int, show: impl FnOnce(&[u8])) {
    match found {
        Ok(found) => {
            put(flag, logical(found.is_some()));
            put(ierr, SUCCESS);
            if let Some(text) = found {
                show(&text);
            }
        }
        Err(rc) => put(ierr, rc),
    }
}

pub unsafe extern "C" fn info_get(
    info: *const c_int,
    key: *const u8,
    _valuelen: *const c_int,
    value: *mut u8,
    flag: *mut c_int,
    ierr: *mut c_int,
    key_length: c_int,
    value_length: c_int,
) {
    // SAFETY: arguments of the program, as the standard says; the lengths of strings come last.
    unsafe {
        let found = value_of(info, &string(key, key_length));
        answer(found, flag, ierr, |text| fill(value, value_length, text));
    }
}

pub unsafe extern "C" fn info_get_string(
    info: *const c_int,
    key: *const u8,
    buflen: *mut c_int,
    value: *mut u8,
    flag: *mut c_int,
    ierr: *mut c_int,
    key_length: c_int,
    value_length: c_int,
) {
    // SAFETY: as above.
    unsafe {
        let found = value_of(info, &string(key, key_length));
        answer(found, flag, ierr, |text| {
            if *buflen > 0 {
                fill(value, value_length, text);
            }
            *buflen = text.len() as c_int;
        });
    }
}
