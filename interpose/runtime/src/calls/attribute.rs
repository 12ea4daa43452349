//! Attribute keys and attributes (MPI 4.1, 7.7), also by their names in MPI-1 (16.1).
#![allow(unsafe_code)]

use crate::Runtime;
use crate::error_handling::{finish, finish_win, handle_error};
use crate::errors::{ERR_ARG, ERR_COMM, ERR_TYPE, ERR_WIN, SUCCESS};
use crate::generated::callbacks::{CommCopyFn, CommDeleteFn};
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtWin};
use crate::objects::attribute::value::Language;
use crate::objects::attribute::{AttributedObject, DUPLICATE, ERR_KEYVAL, INVALID_KEY, KeyvalKind};
use crate::objects::{objects, objects_mut, window};
use crate::{abi, process_info};
use std::ffi::{c_int, c_void};
use understudy_abi::fortran;
use understudy_mpi::abi::Domain;
use understudy_mpi::real_types::RealComm;

/// Key of `MPI_LASTUSEDCODE` in Open MPI.
const LAST_USED_CODE_KEY: c_int = 5;
/// Number of predefined keys of communicators, which begin at 0 (MPI 4.1, 9.1.2).
///
/// Order of the keys: MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_APPNUM,
/// MPI_LASTUSEDCODE and MPI_UNIVERSE_SIZE. The following keys belong to windows. `MPI_FT` is not
/// supported, as failures are hidden from the program.
const PREDEFINED_KEYS: c_int = 7;

/// Returns the address of the value of a predefined attribute.
///
/// Every communicator has these attributes. The address is in the program's memory and equal in all
/// processes, unlike the address that the real library returns.
fn predefined(rt: &Runtime, key: c_int) -> Result<Option<u64>, c_int> {
    let value = match key {
        LAST_USED_CODE_KEY => {
            abi::integer_for_program(Domain::ErrorCode, objects(rt).error_codes.last_used())
        }
        _ => match real_value(key)? {
            Some(value) => value,
            None => return Ok(None),
        },
    };
    // SAFETY: the caller passes a key below `PREDEFINED_KEYS`, and there are 16 cells.
    let cell = unsafe { process_info::attribute_cells().add(key as usize) };
    // SAFETY: the cell exists as long as the process, and only this function writes to it.
    unsafe { cell.write(value) };
    Ok(Some(cell as u64))
}

/// Returns the library's own `MPI_COMM_WORLD`, which always has the predefined attributes.
fn whole_world() -> RealComm {
    RealComm(understudy_mpi::abi::object(c"ompi_mpi_comm_world"))
}

fn real_value(key: c_int) -> Result<Option<c_int>, c_int> {
    let (mut address, mut flag) = (std::ptr::null::<c_int>(), 0);
    // SAFETY: a communicator of the real library; the value of a predefined attribute is the
    // address of an integer.
    unsafe {
        match real::PMPI_Comm_get_attr(
            whole_world(),
            key,
            (&raw mut address).cast::<c_void>(),
            &mut flag,
        ) {
            SUCCESS if flag != 0 && !address.is_null() => Ok(Some(*address)),
            SUCCESS => Ok(None),
            rc => Err(rc),
        }
    }
}

/// Passes an error to the error handler of its object.
///
/// Datatypes have no error handler: their errors are handled as errors without an object.
fn finish_on(rt: &Runtime, procedure: Proc, rc: c_int, object: AttributedObject) -> c_int {
    match object {
        AttributedObject::Comm(comm) => finish(rt, procedure, rc, Some(comm)),
        AttributedObject::Datatype(_) => finish(rt, procedure, rc, None),
        AttributedObject::Win(win) => finish_win(rt, procedure, rc, win),
    }
}

/// Returns the error for an object that does not exist.
fn missing(object: AttributedObject) -> c_int {
    match object {
        AttributedObject::Comm(_) => ERR_COMM,
        AttributedObject::Datatype(_) => ERR_TYPE,
        AttributedObject::Win(_) => ERR_WIN,
    }
}

/// Splits a key into the real key and the language of the call.
///
/// The preload library marks calls of MPI-1's Fortran procedures, whose values are integers.
fn key_and_language(key: c_int) -> (c_int, Language) {
    match key >= fortran::INTEGER_KEY_OFFSET {
        true => (key - fortran::INTEGER_KEY_OFFSET, Language::Fortran),
        false => (key, Language::C),
    }
}

/// Handle of an object that caches attributes.
pub(super) trait Caching {
    /// Kind of the keys.
    const KIND: KeyvalKind;

    fn object(self) -> AttributedObject;
}

impl Caching for VirtComm {
    const KIND: KeyvalKind = KeyvalKind::Comm;

    fn object(self) -> AttributedObject {
        AttributedObject::Comm(self)
    }
}

impl Caching for VirtDatatype {
    const KIND: KeyvalKind = KeyvalKind::Datatype;

    fn object(self) -> AttributedObject {
        AttributedObject::Datatype(self)
    }
}

impl Caching for VirtWin {
    const KIND: KeyvalKind = KeyvalKind::Win;

    fn object(self) -> AttributedObject {
        AttributedObject::Win(self)
    }
}

/// Implements `MPI_Comm_set_attr` and its variants.
pub(super) fn set(
    rt: &Runtime,
    procedure: Proc,
    handle: impl Caching,
    key: c_int,
    value: *mut c_void,
) -> c_int {
    let object = handle.object();
    if object.defer_for_callbacks(rt) {
        return 0;
    }
    let (key, language) = key_and_language(key);
    let rc = if object.exists(rt) {
        object.set(rt, key, value as u64, language)
    } else {
        missing(object)
    };
    finish_on(rt, procedure, rc, object)
}

/// Implements `MPI_Comm_delete_attr` and its variants.
pub(super) fn delete(rt: &Runtime, procedure: Proc, handle: impl Caching, key: c_int) -> c_int {
    let object = handle.object();
    if object.defer_for_callbacks(rt) {
        return 0;
    }
    let rc = if object.exists(rt) {
        object.delete(rt, key)
    } else {
        missing(object)
    };
    finish_on(rt, procedure, rc, object)
}

/// Implements `MPI_Comm_get_attr` and its variants.
///
/// # Safety
/// `value` and `flag` are the program's, or null.
pub(super) unsafe fn get(
    rt: &Runtime,
    procedure: Proc,
    handle: impl Caching,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let object = handle.object();
    if value.is_null() || flag.is_null() {
        return finish_on(rt, procedure, ERR_ARG, object);
    }
    if !object.exists(rt) {
        return finish_on(rt, procedure, missing(object), object);
    }
    let (key, language) = key_and_language(key);
    let window_value = match object {
        AttributedObject::Win(win) => window::predefined(rt, win, key),
        _ => None,
    };
    let found = match object {
        AttributedObject::Comm(_) if (0..PREDEFINED_KEYS).contains(&key) => predefined(rt, key),
        _ if window_value.is_some() => Ok(window_value),
        _ => object
            .get(rt, key)
            .map(|value| value.map(|value| value.as_seen_by(language))),
    };
    match found {
        Ok(found) => {
            // SAFETY: null is excluded above; MPI requires addresses of a pointer and an integer.
            unsafe {
                if let Some(found) = found {
                    value.cast::<u64>().write_unaligned(found);
                }
                flag.write(c_int::from(found.is_some()));
            }
            SUCCESS
        }
        Err(rc) => finish_on(rt, procedure, rc, object),
    }
}

/// Returns the recorded form of a function of a key.
///
/// The functions that the library defines (MPI 4.1, 7.7.2) are represented by numbers: 0 for those
/// that do nothing, and [`DUPLICATE`]. In other ABIs these functions already are numbers.
fn recorded_function(function: u64) -> u64 {
    let is_predefined = |what: &str| {
        let names = ["", "COMM_", "TYPE_", "WIN_"].map(|kind| format!("OMPI_C_MPI_{kind}{what}"));
        function != 0
            && names
                .iter()
                .any(|name| process_info::user_symbol(name) == function)
    };
    match function {
        _ if abi::is_foreign_abi() => function,
        _ if is_predefined("NULL_COPY_FN") || is_predefined("NULL_DELETE_FN") => 0,
        _ if is_predefined("DUP_FN") => DUPLICATE,
        _ => function,
    }
}

/// Implements `MPI_Comm_create_keyval` and its variants, whose callbacks have types of one form.
///
/// # Safety
/// `keyval` is the program's, or null.
pub(super) unsafe fn create_keyval<H: Caching>(
    rt: &Runtime,
    procedure: Proc,
    copy: CommCopyFn<H>,
    delete: CommDeleteFn<H>,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let copy = copy.map(|function| function as usize);
    let delete = delete.map(|function| function as usize);
    // In other ABIs null is the function that does nothing.
    let nothing = abi::is_foreign_abi().then_some(0);
    let (Some(copy), Some(delete), false) =
        (copy.or(nothing), delete.or(nothing), keyval.is_null())
    else {
        return handle_error(rt, procedure, ERR_ARG, None);
    };
    let language = match copy & fortran::INTEGER_FUNCTION_MARK {
        0 => Language::C,
        _ => Language::Fortran,
    };
    let functions = (
        recorded_function((copy & !fortran::INTEGER_FUNCTION_MARK) as u64),
        recorded_function(delete as u64),
    );
    let mut objects = objects_mut(rt);
    let key = objects
        .keyvals
        .create(H::KIND, functions, language, extra_state as u64);
    // SAFETY: null is excluded above; MPI requires any other address to be valid.
    unsafe { *keyval = key };
    SUCCESS
}

/// Implements `MPI_Comm_free_keyval` and its variants.
///
/// # Safety
/// `keyval` is the program's, or null.
pub(super) unsafe fn free_keyval<H: Caching>(
    rt: &Runtime,
    procedure: Proc,
    keyval: *mut c_int,
) -> c_int {
    // SAFETY: null is excluded first; MPI requires any other address to be valid.
    if keyval.is_null() || !objects_mut(rt).keyvals.free(H::KIND, unsafe { *keyval }) {
        return handle_error(rt, procedure, ERR_KEYVAL, None);
    }
    // SAFETY: null is excluded above; MPI requires any other address to be valid.
    unsafe { *keyval = INVALID_KEY };
    SUCCESS
}
