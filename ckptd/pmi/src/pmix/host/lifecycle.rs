//! Ranks that begin, finalise and abort.
#![allow(unsafe_code)]

use super::host_state::Host;
use crate::RankAction;
use crate::pmix::abi::{Info, OpDone, Proc, Status};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Tells of a process, if it is known.
///
/// # Safety
/// `proc` points to a process.
unsafe fn event(proc: *const Proc, action: RankAction) -> Status {
    // SAFETY: as the caller says.
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

/// Says yes to all, also to a process of a generation that ends this moment: if it were refused,
/// libpmix would release its connection twice.
pub unsafe extern "C" fn connected(
    proc: *const Proc,
    _: *mut c_void,
    _: *mut Info,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix says which process it is.
    unsafe { event(proc, RankAction::Connected) };
    Status::OPERATION_SUCCEEDED
}

pub unsafe extern "C" fn finalized(
    proc: *const Proc,
    _: *mut c_void,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: as above.
    unsafe { event(proc, RankAction::Finalized) }
}

/// Never answers: the process waits in its library until it is taken out of there, or killed. It
/// would end itself, and what it gives up for may be another's death.
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
        // SAFETY: what is not null is a string.
        false => unsafe { CStr::from_ptr(message) }
            .to_string_lossy()
            .into_owned(),
    };
    // SAFETY: libpmix says which process it is.
    match unsafe { event(proc, RankAction::Abort { status, message }) } {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        refused => refused,
    }
}
