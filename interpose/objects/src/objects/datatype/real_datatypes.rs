//! Real datatypes by index, and the program's handles of real datatypes.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtDatatype, real_datatype};
use crate::objects::comm::hints::MAX_NAME;
use crate::objects::lookup::Predefined;
use std::ffi::{CStr, CString, c_char, c_int};
use understudy_mpi::real_types::RealDatatype;

static NULL: Predefined = Predefined::new("ompi_mpi_datatype_null");

/// Returns the program's handle of `MPI_DATATYPE_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtDatatype {
    VirtDatatype(NULL.get(rt))
}

/// Returns the program's handle of the datatype with this index.
pub fn handle(index: u32) -> VirtDatatype {
    VirtDatatype(handles::virtual_handle(HandleKind::Datatype, index))
}

/// Returns the program's handle of a real datatype, or `MPI_DATATYPE_NULL` if it has none.
pub fn virtual_of(rt: &Runtime, real: RealDatatype) -> VirtDatatype {
    if let Some(handle) = handles::predefined_of(rt, real.0) {
        return VirtDatatype(handle);
    }
    let found = rt
        .objects
        .reverse
        .borrow()
        .as_ref()
        .and_then(|reverse| reverse.get(&(real.0 as usize)).copied());
    found.map_or_else(|| null_handle(rt), handle)
}

pub(super) fn set_real(rt: &Runtime, index: u32, real: RealDatatype) {
    handles::set_real(rt, HandleKind::Datatype, index, real.0);
    rt.objects
        .reverse
        .borrow_mut()
        .get_or_insert_default()
        .insert(real.0 as usize, index);
}

/// Returns the name of a real datatype.
pub fn name_of(datatype: RealDatatype) -> Vec<u8> {
    let mut buffer = [0u8; MAX_NAME + 1];
    let mut length = 0;
    // SAFETY: the real library writes at most MPI_MAX_OBJECT_NAME bytes.
    let rc = unsafe {
        real::PMPI_Type_get_name(datatype, buffer.as_mut_ptr().cast::<c_char>(), &mut length)
    };
    match CStr::from_bytes_until_nul(&buffer) {
        Ok(name) if rc == SUCCESS => name.to_bytes().to_vec(),
        _ => Vec::new(),
    }
}

pub(super) fn null_real(rt: &Runtime) -> RealDatatype {
    real_datatype(rt, null_handle(rt))
}

pub(super) fn check(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}

pub(super) fn drop_real(rt: &Runtime, index: u32) {
    let mut datatype = real_datatype(rt, handle(index));
    handles::set_real(rt, HandleKind::Datatype, index, std::ptr::null_mut());
    if let Some(reverse) = &mut *rt.objects.reverse.borrow_mut() {
        reverse.remove(&(datatype.0 as usize));
    }
    if !datatype.0.is_null() {
        // SAFETY: a datatype of the runtime; the real library keeps it alive while other objects
        // use it.
        unsafe { real::PMPI_Type_free(&mut datatype) };
    }
}

/// Names a real datatype.
pub(super) fn rename(datatype: RealDatatype, name: &[u8]) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: a datatype of the runtime and a C string; a failure has no effect except a
        // missing name.
        unsafe { real::PMPI_Type_set_name(datatype, name.as_ptr()) };
    }
}
