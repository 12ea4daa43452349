//! Fortran's strings, which have a fixed length and are padded with blanks.
//!
//! The module also contains the procedures that return values of info objects (MPI 4.1, 10).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::mpi::*;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

unsafe extern "C" {
    fn PMPI_Info_get(
        info: Handle,
        key: *const c_char,
        valuelen: c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
    fn PMPI_Info_get_valuelen(
        info: Handle,
        key: *const c_char,
        valuelen: *mut c_int,
        flag: *mut c_int,
    ) -> c_int;
}

/// Returns a C string without leading and trailing blanks.
///
/// # Safety
/// `text` must point to `length` bytes.
pub unsafe fn string(text: *const u8, length: c_int) -> Vec<u8> {
    // SAFETY: the caller guarantees that `text` has `length` bytes.
    let text = unsafe { core::slice::from_raw_parts(text, length.max(0) as usize) };
    let is_text = |byte: &u8| *byte != b' ';
    let first = text.iter().position(is_text).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(is_text)
        .map_or(first, |last| last + 1);
    text[first..end].iter().copied().chain([0]).collect()
}

/// Stores a string and pads it with blanks.
///
/// # Safety
/// `string` must point to `length` bytes.
unsafe fn fill(string: *mut u8, length: c_int, text: &[u8]) {
    // SAFETY: the caller guarantees that `string` has `length` bytes.
    let string = unsafe { core::slice::from_raw_parts_mut(string, length.max(0) as usize) };
    let copied = text.len().min(string.len());
    string[..copied].copy_from_slice(&text[..copied]);
    string[copied..].fill(b' ');
}

/// Converts a string to C; Open MPI's bindings call this function and free the result.
///
/// # Safety
/// `text` must point to `length` bytes; `result` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_string_f2c(
    text: *const u8,
    length: c_int,
    result: *mut *mut u8,
) -> c_int {
    // SAFETY: the caller guarantees that `text` has `length` bytes and `result` is writable.
    unsafe { *result = string(text, length).leak().as_mut_ptr() };
    SUCCESS
}

/// Converts a C string to Fortran.
///
/// # Safety
/// `text` must be a C string; `result` must point to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_string_c2f(
    text: *const c_char,
    result: *mut u8,
    length: c_int,
) -> c_int {
    // SAFETY: the caller guarantees that `text` is a C string and `result` has `length` bytes.
    unsafe { fill(result, length, core::ffi::CStr::from_ptr(text).to_bytes()) };
    SUCCESS
}

/// Returns a C list of `count` strings, or of the strings before a blank one.
///
/// A null pointer ends the list.
///
/// # Safety
/// The strings must have this length, and each must begin `stride` bytes after the previous one.
/// Without `count`, one string must be blank.
unsafe fn c_list(
    mut text: *const u8,
    count: Option<usize>,
    length: c_int,
    stride: c_int,
) -> *mut *mut u8 {
    let mut all = Vec::new();
    while count.is_none_or(|count| all.len() < count) {
        // SAFETY: the caller guarantees that the strings have this length and distance; the loop
        // ends at `count` or at a blank string.
        let one = unsafe { string(text, length) };
        if count.is_none() && one.len() == 1 {
            break;
        }
        all.push(one.leak().as_mut_ptr());
        text = text.wrapping_offset(stride as isize);
    }
    all.push(core::ptr::null_mut());
    all.leak().as_mut_ptr()
}

/// Converts the arguments of MPI_Comm_spawn to C; Open MPI's bindings free the result.
///
/// # Safety
/// The strings must have this length, and each must begin `stride` bytes after the previous one;
/// the last string must be blank. `result` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_argv_blank_f2c(
    array: *const u8,
    length: c_int,
    stride: c_int,
    result: *mut *mut *mut u8,
) -> c_int {
    // SAFETY: the caller guarantees that the strings have this length and distance, the last one
    // is blank, and `result` is writable.
    unsafe { *result = c_list(array, None, length, stride) };
    SUCCESS
}

/// Converts `count` strings like [`ompi_fortran_argv_blank_f2c`].
///
/// # Safety
/// The strings must have this length, and each must begin `stride` bytes after the previous one.
/// `result` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_argv_count_f2c(
    array: *const u8,
    count: c_int,
    length: c_int,
    stride: c_int,
    result: *mut *mut *mut u8,
) -> c_int {
    // SAFETY: the caller guarantees that `count` strings of this length and distance exist, and
    // `result` is writable.
    unsafe { *result = c_list(array, Some(count.max(0) as usize), length, stride) };
    SUCCESS
}

/// Converts the arguments of `count` programs, which are the rows of an array.
///
/// # Safety
/// Each row must end with a blank string; the strings must have this length. `result` must be
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_fortran_multiple_argvs_f2c(
    count: c_int,
    array: *const u8,
    length: c_int,
    result: *mut *mut *mut *mut u8,
) -> c_int {
    let row = |row: c_int| array.wrapping_offset(row as isize * length as isize);
    // SAFETY: the caller guarantees that each row ends with a blank string and `result` is
    // writable. Fortran stores arrays by columns, so each string of a row begins one column
    // (`length * count` bytes) after the previous one.
    unsafe {
        let all: Vec<_> = (0..count)
            .map(|index| c_list(row(index), None, length, length * count))
            .collect();
        *result = all.leak().as_mut_ptr();
    }
    SUCCESS
}

/// Returns the value of a key, or `None` if the key has no value.
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn value_of(info: *const c_int, key: &[u8]) -> Result<Option<Vec<u8>>, c_int> {
    let (mut length, mut flag) = (0, 0);
    // SAFETY: the program passes valid arguments, as the standard requires; the buffer has space
    // for the value and its terminator.
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

/// Stores the flag and the error code, and passes a value to `store`.
fn store_result(
    value: Result<Option<Vec<u8>>, c_int>,
    flag: *mut c_int,
    ierr: *mut c_int,
    store: impl FnOnce(&[u8]),
) {
    match value {
        Ok(value) => {
            put(flag, logical(value.is_some()));
            put(ierr, SUCCESS);
            if let Some(text) = value {
                store(&text);
            }
        }
        Err(rc) => put(ierr, rc),
    }
}

pub unsafe extern "C" fn info_get(
    info: *const c_int,
    key: *const u8,
    valuelen: *const c_int,
    value: *mut u8,
    flag: *mut c_int,
    ierr: *mut c_int,
    key_length: c_int,
    value_length: c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires; Fortran passes the
    // lengths of strings last.
    unsafe {
        let key_value = value_of(info, &string(key, key_length));
        let max_length = (*valuelen).max(0) as usize;
        store_result(key_value, flag, ierr, |text| {
            fill(value, value_length, &text[..text.len().min(max_length)])
        });
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
    // SAFETY: the program passes valid arguments, as the standard requires; Fortran passes the
    // lengths of strings last.
    unsafe {
        let key_value = value_of(info, &string(key, key_length));
        store_result(key_value, flag, ierr, |text| {
            if *buflen > 0 {
                fill(
                    value,
                    value_length,
                    &text[..text.len().min(*buflen as usize)],
                );
            }
            *buflen = text.len() as c_int;
        });
    }
}
