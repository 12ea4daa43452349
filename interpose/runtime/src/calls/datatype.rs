//! Datatypes (MPI 4.1, chapter 5). Most query procedures are generated.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::{finish, handle_error};
use crate::errors::{ERR_ARG, ERR_COUNT, ERR_TYPE, SUCCESS};
use crate::generated::{HandleKind, Proc, real};
use crate::handles::{self, VirtDatatype, real_datatype};
use crate::objects::attribute::AttributedObject;
use crate::objects::datatype::{CountSize, Recipe};
use crate::objects::{attribute, datatype};
use std::ffi::{c_char, c_int};
use understudy_mpi::real_types::RealDatatype;

/// `MPI_Type_size`: the size of the datatype that was used last is cached.
pub unsafe extern "C" fn MPI_Type_size(datatype: VirtDatatype, size: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        match handles::cached_number(rt, HandleKind::Datatype, datatype.0) {
            known if known > 0 && !size.is_null() => size.write(known),
            _ => {
                let rc = attempt!(rt, real::PMPI_Type_size(real_datatype(rt, datatype), size));
                if rc != SUCCESS {
                    return finish(rt, Proc::MPI_Type_size, rc, None);
                }
                handles::cache_number(rt, HandleKind::Datatype, datatype.0, (*size).max(0));
            }
        }
    }
    SUCCESS
}

/// Calls a real constructor and registers the new datatype.
///
/// # Safety
/// `newtype` is the program's address for the handle, or null.
unsafe fn construct(
    rt: &Runtime,
    (procedure, counts): (Proc, CountSize),
    contained: &[VirtDatatype],
    newtype: *mut VirtDatatype,
    real: impl FnOnce(&[RealDatatype], *mut RealDatatype) -> c_int,
) -> c_int {
    if newtype.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    let bases: Vec<RealDatatype> = contained
        .iter()
        .map(|&base| real_datatype(rt, base))
        .collect();
    if bases.iter().any(|base| base.0.is_null()) {
        return handle_error(rt, procedure, ERR_TYPE, None);
    }
    let mut new = real_datatype(rt, datatype::null_handle(rt));
    let rc = real(&bases, &mut new);
    if rc != SUCCESS {
        return handle_error(rt, procedure, rc, None);
    }
    match datatype::create(rt, new, contained, counts) {
        Ok(handle) => {
            // SAFETY: null is excluded above; MPI requires any other address to be valid.
            unsafe { *newtype = handle };
            SUCCESS
        }
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

/// Implements `MPI_Type_contiguous` and its variants, which derive a datatype from one other
/// datatype.
///
/// # Safety
/// `newtype` is the program's address for the handle, or null.
pub(super) unsafe fn derive(
    rt: &Runtime,
    procedure: (Proc, CountSize),
    oldtype: VirtDatatype,
    newtype: *mut VirtDatatype,
    real: impl FnOnce(RealDatatype, *mut RealDatatype) -> c_int,
) -> c_int {
    // SAFETY: `newtype` is the program's address for the handle, or null.
    unsafe {
        construct(rt, procedure, &[oldtype], newtype, |old, new| {
            real(old[0], new)
        })
    }
}

/// Implements `MPI_Type_create_f90_real` and its variants, which use no other datatype.
///
/// # Safety
/// `newtype` is the program's address for the handle, or null.
pub(super) unsafe fn make(
    rt: &Runtime,
    procedure: Proc,
    newtype: *mut VirtDatatype,
    real: impl FnOnce(*mut RealDatatype) -> c_int,
) -> c_int {
    // SAFETY: `newtype` is the program's address for the handle, or null.
    unsafe {
        construct(rt, (procedure, CountSize::Int), &[], newtype, |_, new| {
            real(new)
        })
    }
}

/// Returns the program's array of `count` datatypes.
///
/// # Safety
/// The array must have this length, unless it is null.
unsafe fn array<'a>(
    types: *const VirtDatatype,
    count: impl TryInto<usize>,
) -> Result<&'a [VirtDatatype], c_int> {
    match count.try_into() {
        Err(_) => Err(ERR_COUNT),
        Ok(0) => Ok(&[]),
        Ok(_) if types.is_null() => Err(ERR_ARG),
        // SAFETY: the caller passes an array of `count` datatypes; null is excluded above.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(types, count) }),
    }
}

/// Implements `MPI_Type_create_struct`, also by its name in MPI-1.
///
/// # Safety
/// The arguments are the program's.
pub(super) unsafe fn structure(
    rt: &Runtime,
    procedure: Proc,
    count: c_int,
    lengths: *const c_int,
    displacements: *const isize,
    types: *const VirtDatatype,
    newtype: *mut VirtDatatype,
) -> c_int {
    // SAFETY: MPI requires the program's arguments to be valid; the datatypes are real.
    unsafe {
        match array(types, count) {
            Ok(types) => construct(
                rt,
                (procedure, CountSize::Int),
                types,
                newtype,
                |types, new| {
                    real::PMPI_Type_create_struct(
                        count,
                        lengths,
                        displacements,
                        types.as_ptr(),
                        new,
                    )
                },
            ),
            Err(rc) => handle_error(rt, procedure, rc, None),
        }
    }
}

pub unsafe extern "C" fn MPI_Type_create_struct_c(
    count: i64,
    lengths: *const i64,
    displacements: *const i64,
    types: *const VirtDatatype,
    newtype: *mut VirtDatatype,
) -> c_int {
    let (rt, procedure) = (runtime(), Proc::MPI_Type_create_struct_c);
    // SAFETY: MPI requires the program's arguments to be valid; the datatypes are real.
    unsafe {
        match array(types, count) {
            Ok(types) => construct(
                rt,
                (procedure, CountSize::Large),
                types,
                newtype,
                |types, new| {
                    real::PMPI_Type_create_struct_c(
                        count,
                        lengths,
                        displacements,
                        types.as_ptr(),
                        new,
                    )
                },
            ),
            Err(rc) => handle_error(rt, procedure, rc, None),
        }
    }
}

/// `MPI_Type_dup`: runs the copy functions of attributes (7.7.4).
///
/// No datatype is made if one of the copy functions fails.
pub unsafe extern "C" fn MPI_Type_dup(oldtype: VirtDatatype, newtype: *mut VirtDatatype) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Type_dup;
    if AttributedObject::Datatype(oldtype).defer_for_callbacks(rt) {
        return 0;
    }
    // SAFETY: MPI requires the program's arguments to be valid; the datatype is real.
    let rc = unsafe {
        construct(
            rt,
            (procedure, CountSize::Int),
            &[oldtype],
            newtype,
            |old, new| real::PMPI_Type_dup(old[0], new),
        )
    };
    if rc != SUCCESS {
        return rc;
    }
    // SAFETY: the constructor has just written to this address.
    let new = unsafe { *newtype };
    if let Err(rc) = attribute::copy_type(rt, oldtype, new) {
        datatype::free(rt, new);
        // SAFETY: the constructor has just written to this address.
        unsafe { *newtype = datatype::null_handle(rt) };
        return handle_error(rt, procedure, rc, None);
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Type_commit(datatype: *mut VirtDatatype) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Type_commit;
    if datatype.is_null() {
        return handle_error(rt, procedure, ERR_TYPE, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let handle = unsafe { *datatype };
    let mut real = real_datatype(rt, handle);
    if real.0.is_null() {
        return handle_error(rt, procedure, ERR_TYPE, None);
    }
    // SAFETY: a real datatype, in a variable of this frame.
    let rc = unsafe { real::PMPI_Type_commit(&mut real) };
    if rc == SUCCESS {
        datatype::set_committed(rt, handle);
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Type_free(datatype: *mut VirtDatatype) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Type_free;
    if datatype.is_null() {
        return handle_error(rt, procedure, ERR_TYPE, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let handle = unsafe { *datatype };
    if !datatype::may_free(rt, handle) {
        return handle_error(rt, procedure, ERR_TYPE, None);
    }
    if AttributedObject::Datatype(handle).defer_for_callbacks(rt) {
        return 0;
    }
    let rc = match attribute::delete_type(rt, handle) {
        SUCCESS => datatype::free(rt, handle),
        rc => rc,
    };
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { *datatype = datatype::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}

/// Copies a recipe's arguments to the program's array.
///
/// # Safety
/// `to` is the program's array of `max` elements.
unsafe fn copy<T: Copy>(from: &[T], to: *mut T, max: i64) -> Result<(), c_int> {
    if usize::try_from(max).map_or(true, |max| max < from.len())
        || (to.is_null() && !from.is_empty())
    {
        return Err(ERR_ARG);
    }
    if !from.is_empty() {
        // SAFETY: the caller guarantees the array, which is long enough.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }
    Ok(())
}

/// Array of the program, and the number of its elements.
type OutputArray<T> = (*mut T, i64);

/// Writes the results of `MPI_Type_get_contents`.
///
/// Derived datatypes are returned as new ones, which the program must free (5.1.13).
///
/// # Safety
/// The arrays are the program's.
unsafe fn contents(
    rt: &Runtime,
    recipe: &Recipe,
    (integers, addresses, counts): (OutputArray<c_int>, OutputArray<i64>, OutputArray<i64>),
    (datatypes, max_datatypes): OutputArray<VirtDatatype>,
) -> Result<(), c_int> {
    // SAFETY: MPI requires the program's arrays to have these lengths, which `copy` checks.
    unsafe {
        copy(&recipe.integers, integers.0, integers.1)?;
        copy(&recipe.addresses, addresses.0, addresses.1)?;
        copy(&recipe.counts, counts.0, counts.1)?;
    }
    let is_enough = usize::try_from(max_datatypes).is_ok_and(|max| max >= recipe.contained.len());
    if !is_enough || (datatypes.is_null() && !recipe.contained.is_empty()) {
        return Err(ERR_ARG);
    }
    for (n, &base) in recipe.contained.iter().enumerate() {
        let handle = datatype::duplicate_equal(rt, VirtDatatype(base as *mut _))?;
        // SAFETY: the length is checked above; MPI requires the program's array to have it.
        unsafe { datatypes.add(n).write(handle) };
    }
    Ok(())
}

/// `MPI_Type_get_contents`: fails for datatypes from constructors with large counts.
///
/// Only `MPI_Type_get_contents_c` returns their contents, as in MPICH.
pub unsafe extern "C" fn MPI_Type_get_contents(
    datatype: VirtDatatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    datatypes: *mut VirtDatatype,
) -> c_int {
    let (rt, procedure) = (runtime(), Proc::MPI_Type_get_contents);
    let recipe = datatype::recipe(rt, datatype).map(|recipe| recipe.clone());
    let Some(recipe) = recipe.filter(|recipe| recipe.counts.is_empty()) else {
        return handle_error(rt, procedure, ERR_TYPE, None);
    };
    let numbers = (
        (integers, max_integers.into()),
        (addresses.cast(), max_addresses.into()),
        (std::ptr::null_mut(), 0),
    );
    // SAFETY: MPI requires the program's arrays to have these lengths.
    match unsafe { contents(rt, &recipe, numbers, (datatypes, max_datatypes.into())) } {
        Ok(()) => SUCCESS,
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Type_get_contents_c(
    datatype: VirtDatatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: *mut c_int,
    addresses: *mut isize,
    large_counts: *mut i64,
    datatypes: *mut VirtDatatype,
) -> c_int {
    let (rt, procedure) = (runtime(), Proc::MPI_Type_get_contents_c);
    let Some(recipe) = datatype::recipe(rt, datatype).map(|recipe| recipe.clone()) else {
        return handle_error(rt, procedure, ERR_TYPE, None);
    };
    let numbers = (
        (integers, max_integers),
        (addresses.cast(), max_addresses),
        (large_counts, max_large_counts),
    );
    // SAFETY: MPI requires the program's arrays to have these lengths.
    match unsafe { contents(rt, &recipe, numbers, (datatypes, max_datatypes)) } {
        Ok(()) => SUCCESS,
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut VirtDatatype,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Type_match_size;
    if datatype.is_null() {
        return handle_error(rt, procedure, ERR_ARG, None);
    }
    let mut found = real_datatype(rt, datatype::null_handle(rt));
    // SAFETY: the real library checks the numbers.
    let rc = unsafe { real::PMPI_Type_match_size(typeclass, size, &mut found) };
    if rc == SUCCESS {
        let handle = datatype::virtual_of(rt, found);
        if handle == datatype::null_handle(rt) {
            return handle_error(rt, procedure, ERR_ARG, None);
        }
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { *datatype = handle };
    }
    finish(rt, procedure, rc, None)
}

pub unsafe extern "C" fn MPI_Type_set_name(
    datatype: VirtDatatype,
    type_name: *const c_char,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    let rc = unsafe { real::PMPI_Type_set_name(real_datatype(rt, datatype), type_name) };
    if rc == SUCCESS {
        datatype::set_name(rt, datatype);
    }
    finish(rt, Proc::MPI_Type_set_name, rc, None)
}
