//! Ranks that connect, finalise and abort.
#![allow(unsafe_code)]

use super::host_state::Host;
use crate::RankAction;
use crate::pmix::abi::{Info, OpDone, Proc, Status};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Reports an action of a process, if its generation is registered.
///
/// # Safety
/// `proc` points to a valid process.
unsafe fn event(proc: *const Proc, action: RankAction) -> Status {
    // SAFETY: the caller guarantees that `proc` is valid.
    let proc = unsafe { &*proc };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    match host.known(proc) {
        Some(owner) => {
            if action == RankAction::Finalized {
                host.connections.farewell(owner.clone());
            }
            host.tell(owner, action);
        }
        None => return Status::NOT_FOUND,
    }
    Status::OPERATION_SUCCEEDED
}

/// Accepts every process, also one of a generation that is just ending.
///
/// libpmix would release the connection of a refused process twice.
pub unsafe extern "C" fn connected(
    proc: *const Proc,
    _: *mut c_void,
    _: *mut Info,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process.
    unsafe { event(proc, RankAction::Connected) };
    Status::OPERATION_SUCCEEDED
}

pub unsafe extern "C" fn finalized(
    proc: *const Proc,
    _: *mut c_void,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process.
    unsafe { event(proc, RankAction::Finalized) }
}

/// Reports the abort of a process, and never replies.
///
/// The process waits in its MPI library until it is interrupted or killed. With a reply it would
/// exit, although the cause may be the death of another process.
pub unsafe extern "C" fn abort(
    proc: *const Proc,
    _: *mut c_void,
    status: c_int,
    message: *const c_char,
    _: *mut Proc,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    let message = match message.is_null() {
        true => String::new(),
        // SAFETY: libpmix passes null or a valid string.
        false => unsafe { CStr::from_ptr(message) }
            .to_string_lossy()
            .into_owned(),
    };
    // SAFETY: libpmix passes a valid process.
    match unsafe { event(proc, RankAction::Abort { status, message }) } {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        refused => refused,
    }
}
