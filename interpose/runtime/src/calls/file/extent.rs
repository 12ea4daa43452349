//! Length of data, in memory and in files.
#![allow(unsafe_code)]

use super::file_failure::{FileResult, class, local};
use crate::Runtime;
use crate::errors::*;
use crate::generated::real;
use crate::handles::{VirtDatatype, real_datatype};
use crate::objects::datatype;
use std::ffi::c_void;

/// Returns the handle of a view's datatype from its saved form.
pub(super) fn handle(raw: u64) -> VirtDatatype {
    VirtDatatype(raw as *mut c_void)
}

/// Returns the number of bytes of data in an element.
pub(super) fn size_of(rt: &Runtime, datatype: VirtDatatype) -> FileResult<u64> {
    let mut size = 0;
    if datatype::index_of_created(rt, datatype).is_none() && !datatype::is_predefined(rt, datatype)
    {
        return Err(class(ERR_TYPE));
    }
    // SAFETY: a local query of a datatype.
    local(unsafe { real::PMPI_Type_size_x(real_datatype(rt, datatype), &mut size) })?;
    u64::try_from(size).map_err(|_| class(ERR_TYPE))
}

/// Returns the number of bytes of an element in a file of the portable representation.
pub(super) fn external_size(rt: &Runtime, datatype: VirtDatatype) -> FileResult<u64> {
    let mut size = 0;
    // SAFETY: a datatype and the name of the representation.
    let rc = unsafe {
        real::PMPI_Pack_external_size(
            c"external32".as_ptr(),
            1,
            real_datatype(rt, datatype),
            &mut size,
        )
    };
    local(rc)?;
    Ok(size as u64)
}
