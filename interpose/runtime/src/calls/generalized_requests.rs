//! Generalized requests (MPI 4.1, section 13.2), implemented by the runtime alone.
//!
//! A recovery therefore loses no state of these requests.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use crate::calls::runtime;
use crate::completion;
use crate::error_handling::finish;
use crate::errors::{ERR_REQUEST, SUCCESS};
use crate::generated::Proc;
use crate::generated::callbacks::{GrequestCancelFn, GrequestFreeFn, GrequestQueryFn};
use crate::handles::VirtRequest;
use crate::objects::comm;
use crate::requests::{self, EMPTY_STATUS, GeneralizedFunctions, RequestKind, RequestState};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealRequest;

pub unsafe extern "C" fn MPI_Grequest_start(
    query_fn: GrequestQueryFn,
    free_fn: GrequestFreeFn,
    cancel_fn: GrequestCancelFn,
    extra_state: *mut c_void,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let general = GeneralizedFunctions {
        query: query_fn.map_or(0, |function| function as usize as u64),
        free: free_fn.map_or(0, |function| function as usize as u64),
        cancel: cancel_fn.map_or(0, |function| function as usize as u64),
        extra: extra_state as u64,
        in_fortran: false,
    };
    let none = RealRequest(std::ptr::null_mut());
    let handle = requests::add(
        rt,
        comm::world_handle(rt),
        RequestKind::General(general),
        RequestState::Open,
        none,
    );
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe { request.write(handle) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Grequest_complete(request: VirtRequest) -> c_int {
    let rt = runtime();
    let is_open =
        |&index: &u32| requests::general(rt, index).is_some() && requests::is_active(rt, index);
    let Some(index) = requests::index(rt, request).filter(is_open) else {
        return finish(rt, Proc::MPI_Grequest_complete, ERR_REQUEST, None);
    };
    requests::set_state(rt, index, requests::done_state(EMPTY_STATUS, SUCCESS));
    outcome!(completion::reap_orphan(rt, index));
    SUCCESS
}
