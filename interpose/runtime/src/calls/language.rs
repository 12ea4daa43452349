//! Internal procedures of MPICH that its bindings for other languages call.
//!
//! The preload library provides these procedures in place of MPICH's C library. They have slots
//! after those of the call table, and their arguments are not translated to Open MPI's ABI.
#![allow(unsafe_code)]

use crate::arch::{self, GREQUEST_FORTRAN, KEYVAL_PROXY};
use crate::calls::runtime;
use crate::objects::attribute::CallbackProxies;
use crate::objects::objects_mut;
use crate::requests::{self, RequestKind};
use crate::{abi, handles::VirtRequest};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;
use understudy_mpi::real_types::HandleKind;

/// Registers the handlers of these procedures.
pub fn begin() {
    arch::set_handler(KEYVAL_PROXY, keyval_proxy as *const () as *mut c_void);
    arch::set_handler(
        GREQUEST_FORTRAN,
        grequest_fortran as *const () as *mut c_void,
    );
}

/// `MPII_Keyval_set_proxy(key, copy, delete)`
unsafe extern "C" fn keyval_proxy(key: c_int, copy: u64, delete: u64) -> c_int {
    let key = abi::integer_from_program(Domain::Keyval, key);
    objects_mut(runtime())
        .keyvals
        .set_proxy(key, CallbackProxies { copy, delete });
    0
}

/// `MPII_Grequest_set_lang_f77(request)`
unsafe extern "C" fn grequest_fortran(request: c_int) -> c_int {
    let rt = runtime();
    let request = abi::handle_from_program(rt, HandleKind::Request, request as u64);
    let index = requests::index(rt, VirtRequest(request as *mut c_void));
    if let Some(mut request) = index.and_then(|index| requests::get_mut(rt, index))
        && let RequestKind::General(general) = &mut request.kind
    {
        general.in_fortran = true;
    }
    0
}
