//! Data representations that the program has registered (MPI 4.1, 14.5.3).
//!
//! A library that has been reinitialised has no registered representations, so all registrations
//! are repeated. Open MPI stores a name even if it reports an error. Refused registrations
//! are therefore repeated too, and must be refused once more.
#![allow(unsafe_code)]

use super::registered_representation::RegisteredRepresentation;
use crate::Runtime;
use crate::errors::ERR_INTERN;
use crate::generated::callbacks::{DatarepConversionFn, DatarepExtentFn};
use crate::generated::real;
use crate::objects::rebuild_error::log_not_rebuilt;
use crate::objects::{objects, objects_mut};
use std::ffi::{CStr, c_char, c_int, c_void};
use understudy_mpi::real_types::RealDatatype;

/// Conversion function that is registered instead of the program's; no library calls it.
unsafe extern "C" fn convert(
    _userbuf: *mut c_void,
    _datatype: RealDatatype,
    _count: c_int,
    _filebuf: *mut c_void,
    _position: i64,
    _extra_state: *mut c_void,
) -> c_int {
    ERR_INTERN
}

/// Extent function that is registered instead of the program's; no library calls it.
unsafe extern "C" fn extent(
    _datatype: RealDatatype,
    _extent: *mut isize,
    _extra_state: *mut c_void,
) -> c_int {
    ERR_INTERN
}

/// Registers a representation with the library, and returns the library's return code.
///
/// # Safety
/// `name` must be a C string or null.
pub unsafe fn register_real(name: *const c_char, [read, write, measure]: [bool; 3]) -> c_int {
    let conversion =
        |given: bool| -> DatarepConversionFn<RealDatatype> { given.then_some(convert as _) };
    let measure: DatarepExtentFn<RealDatatype> = measure.then_some(extent as _);
    let extra_state = std::ptr::null_mut();
    // SAFETY: the caller passes a C string or null, and the functions live as long as the process.
    unsafe {
        real::PMPI_Register_datarep(
            name,
            conversion(read),
            conversion(write),
            measure,
            extra_state,
        )
    }
}

/// Records a registration and the return code, unless an equal registration is already recorded.
pub fn record(rt: &Runtime, name: &CStr, given: [bool; 3], code: c_int) {
    let all = &mut objects_mut(rt).representations;
    if all
        .iter()
        .all(|recorded| (&*recorded.name, recorded.given) != (name, given))
    {
        let name = name.to_owned();
        all.push(RegisteredRepresentation { name, given, code });
    }
}

/// Registers all recorded representations with a library that has been reinitialised.
pub fn rebuild(rt: &Runtime) {
    for recorded in &objects(rt).representations {
        // SAFETY: the recorded name is a C string.
        let code = unsafe { register_real(recorded.name.as_ptr(), recorded.given) };
        if code != recorded.code {
            log_not_rebuilt(&format!("data representation {:?}", recorded.name), code);
        }
    }
}
