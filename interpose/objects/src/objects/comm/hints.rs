//! Names and hints of real communicators.
#![allow(unsafe_code)]

pub use super::hint_pairs::Pairs;
use crate::Runtime;
use crate::errors;
use crate::generated::real;
use crate::handles::{self, VirtInfo, real_info};
use std::ffi::{CStr, CString, c_char, c_int};
use understudy_mpi::real_types::{RealComm, RealInfo};

/// Greatest `MPI_MAX_INFO_KEY` of any ABI.
const MAX_KEY: usize = 256;
/// Greatest `MPI_MAX_OBJECT_NAME` of any ABI.
pub const MAX_NAME: usize = 128;

pub fn null_info(rt: &Runtime) -> RealInfo {
    real_info(
        rt,
        VirtInfo(handles::predefined_handle(rt, "ompi_mpi_info_null")),
    )
}

/// Names a real communicator; the real library truncates a name that is too long.
pub fn set_name(comm: RealComm, name: &[u8]) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: a communicator of the runtime and a C string. The call is local; a failure has no
        // effect except a missing name.
        unsafe { real::PMPI_Comm_set_name(comm, name.as_ptr()) };
    }
}

/// Returns the name of a real communicator.
pub fn name(comm: RealComm) -> Vec<u8> {
    let mut buffer = [0u8; MAX_NAME + 1];
    let mut length = 0;
    // SAFETY: the real library writes at most MPI_MAX_OBJECT_NAME bytes.
    let rc = unsafe {
        real::PMPI_Comm_get_name(comm, buffer.as_mut_ptr().cast::<c_char>(), &mut length)
    };
    match CStr::from_bytes_until_nul(&buffer) {
        Ok(name) if rc == errors::SUCCESS => name.to_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// Returns the keys and values of a real info object.
pub fn pairs(info: RealInfo) -> Pairs {
    let mut count = 0;
    // SAFETY: an info object; each buffer is as long as the length passed to the library, or as the
    // library requires.
    unsafe {
        if real::PMPI_Info_get_nkeys(info, &mut count) != errors::SUCCESS {
            return Vec::new();
        }
        let nth_pair = |n: c_int| {
            let mut key = [0u8; MAX_KEY + 1];
            let (mut length, mut flag) = (0, 0);
            let name = key.as_mut_ptr().cast::<c_char>();
            let mut rc = real::PMPI_Info_get_nthkey(info, n, name);
            if rc == errors::SUCCESS {
                rc = real::PMPI_Info_get_valuelen(info, name, &mut length, &mut flag);
            }
            if rc != errors::SUCCESS || flag == 0 {
                return None;
            }
            let mut value = vec![0u8; length.max(0) as usize + 1];
            rc = real::PMPI_Info_get(
                info,
                name,
                length,
                value.as_mut_ptr().cast::<c_char>(),
                &mut flag,
            );
            let text =
                |bytes: &[u8]| Some(CStr::from_bytes_until_nul(bytes).ok()?.to_bytes().to_vec());
            if rc == errors::SUCCESS && flag != 0 {
                Some((text(&key)?, text(&value)?))
            } else {
                None
            }
        };
        (0..count).filter_map(nth_pair).collect()
    }
}

/// Returns the hints of a real communicator. Local in Open MPI.
pub fn hints_of_comm(rt: &Runtime, comm: RealComm) -> Pairs {
    let mut info = null_info(rt);
    // SAFETY: a communicator of the runtime, which owns the returned info object.
    unsafe {
        if real::PMPI_Comm_get_info(comm, &mut info) != errors::SUCCESS {
            return Vec::new();
        }
        let found = pairs(info);
        real::PMPI_Info_free(&mut info);
        found
    }
}

/// Sets hints of a real communicator. All members must call this in the same order.
pub fn apply(rt: &Runtime, comm: RealComm, hints: &[(Vec<u8>, Vec<u8>)]) -> c_int {
    if hints.is_empty() {
        return errors::SUCCESS;
    }
    let mut info = null_info(rt);
    // SAFETY: the info object is the runtime's, and keys and values are C strings.
    unsafe {
        let mut rc = real::PMPI_Info_create(&mut info);
        if rc != errors::SUCCESS {
            return rc;
        }
        for (key, value) in hints {
            if let (Ok(key), Ok(value)) =
                (CString::new(key.as_slice()), CString::new(value.as_slice()))
            {
                // The library may ignore a hint (MPI 4.1, 7.4.4).
                real::PMPI_Info_set(info, key.as_ptr(), value.as_ptr());
            }
        }
        rc = real::PMPI_Comm_set_info(comm, info);
        real::PMPI_Info_free(&mut info);
        rc
    }
}
