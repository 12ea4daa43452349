//! Fences of ranks, and requests for data of a rank (PMIx_Fence, PMIx_Connect, PMIx_Get).
#![allow(unsafe_code)]

use super::host_state::{HOST, Host};
use crate::pmix::abi::{Info, ModexDone, OpDone, Proc, Status, Type};
use crate::pmix::values::{bytes_at, slice, text_in};
use crate::{Answer, Members, ModexRequest, Purpose};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Connects processes after all participants on this node have called.
///
/// The function must exist: libpmix calls it without a check when a participant dies.
pub unsafe extern "C" fn connect(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    done: Option<OpDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes `count` processes and `info_count` infos, all valid during the call.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        enter_fence(
            Purpose::Connect,
            procs,
            infos,
            ConnectCallback { done, context },
        )
    }
}

pub unsafe extern "C" fn disconnect(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    done: Option<OpDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes `count` processes and `info_count` infos, all valid during the call.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        enter_fence(
            Purpose::Disconnect,
            procs,
            infos,
            ConnectCallback { done, context },
        )
    }
}

/// Enters a fence without data; accepts the call and replies in any case.
///
/// After a refusal, libpmix releases memory more than once, or makes the processes wait.
///
/// # Safety
/// libpmix has created the infos, and waits for the call of `waiting.done`.
unsafe fn enter_fence(
    purpose: Purpose,
    procs: &[Proc],
    infos: &[Info],
    waiting: ConnectCallback,
) -> Status {
    // SAFETY: libpmix has created the infos (guaranteed by the caller), as `gathered` requires.
    match unsafe { gathered(procs, infos) } {
        None => waiting.answer(false),
        Some((members, host)) if host.are_here(&members) => waiting.answer(true),
        Some((members, host)) => {
            let answer = Answer::new(Box::new(move |reply| waiting.answer(reply.is_some())));
            host.exchange(purpose, members, Vec::new(), answer);
        }
    }
    Status::SUCCESS
}

/// Callback of libpmix that waits for processes of other nodes.
struct ConnectCallback {
    done: Option<OpDone>,
    context: *mut c_void,
}

// SAFETY: libpmix accepts the call from any thread; the context is only passed back to it.
unsafe impl Send for ConnectCallback {}

impl ConnectCallback {
    /// Calls the callback, unless libpmix was shut down.
    fn answer(self, have_arrived: bool) {
        let host = HOST.read();
        if let (Some(_), Some(done)) = (&*host, self.done) {
            let status = match have_arrived {
                true => Status::SUCCESS,
                false => Status::LOST_CONNECTION,
            };
            // SAFETY: `self` is consumed, so that the callback is called once; the lock prevents a
            // shutdown of libpmix meanwhile.
            unsafe { done(status, self.context) };
        }
    }
}

/// Callback of libpmix that waits for data, with its context.
struct ModexCallback {
    done: ModexDone,
    context: *mut c_void,
}

// SAFETY: libpmix accepts the call from any thread; the context is only passed back to it.
unsafe impl Send for ModexCallback {}

impl ModexCallback {
    /// Calls the callback, unless libpmix was shut down.
    fn answer(self, reply: Option<Vec<u8>>) {
        let host = HOST.read();
        if host.is_none() {
            return;
        }
        let status = match reply {
            Some(_) => Status::SUCCESS,
            None => Status::LOST_CONNECTION,
        };
        let bytes = Box::new(reply.unwrap_or_default());
        let (start, size) = (bytes.as_ptr().cast(), bytes.len());
        let owner = Box::into_raw(bytes).cast();
        // SAFETY: the bytes stay valid until `release` is called with their owner; the lock
        // prevents a shutdown of libpmix meanwhile.
        unsafe { (self.done)(status, start, size, self.context, Some(release), owner) };
    }
}

unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: the pointer was made by `Box::into_raw` in `answer`, and libpmix passes it back once.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// True if all participants of a fence on this node have entered it.
///
/// libpmix also calls the function for a fence that only the surviving participants have entered.
///
/// # Safety
/// libpmix has created the infos.
unsafe fn is_complete(infos: &[Info]) -> bool {
    let status = infos
        .iter()
        .find(|info| text_in(&info.key) == Some("pmix.loc.col.st"));
    let is_success = |info: &Info| {
        // SAFETY: the type says which member of the union is valid.
        info.value.of != Type::STATUS || unsafe { info.value.data.status } == Status::SUCCESS
    };
    status.is_none_or(is_success)
}

/// Returns the participants of a fence, and the host.
///
/// `None` if the fence is not [complete](is_complete), or a namespace has ended.
///
/// # Safety
/// libpmix has created the infos.
unsafe fn gathered(procs: &[Proc], infos: &[Info]) -> Option<(Members, Arc<Host>)> {
    // SAFETY: libpmix has created the infos (guaranteed by the caller), as `is_complete` requires.
    let host = Host::current().filter(|_| unsafe { is_complete(infos) })?;
    Some((host.members(procs)?, host))
}

/// Enters a fence that exchanges data; replies in any case, like [`enter_fence`].
pub unsafe extern "C" fn fence(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    bytes: *mut c_char,
    size: usize,
    done: Option<ModexDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes `count` processes, `info_count` infos and `size` bytes, all valid
    // during the call. The bytes were allocated with malloc(3) and belong to the host from now on.
    let (gathered, bytes) = unsafe {
        let copy = bytes_at(bytes, size);
        libc::free(bytes.cast());
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        (gathered(procs, infos), copy)
    };
    let Some(done) = done else {
        return Status::ERROR;
    };
    let waiting = ModexCallback { done, context };
    match gathered {
        None => waiting.answer(None),
        Some((members, host)) => {
            let answer = Answer::new(Box::new(move |reply| waiting.answer(reply)));
            host.exchange(Purpose::Exchange, members, bytes, answer);
        }
    }
    Status::SUCCESS
}

pub unsafe extern "C" fn direct_modex(
    proc: *const Proc,
    _: *const Info,
    _: usize,
    done: Option<ModexDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process.
    let proc = unsafe { &*proc };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let Some((generation, rank)) = host.owner_of(proc) else {
        return Status::NOT_FOUND;
    };
    let waiting = ModexCallback { done, context };
    let (answer, recall) = Answer::new(Box::new(move |reply| waiting.answer(reply)));
    if host.register_request(std::iter::once(&generation), &recall) {
        host.peers.modex(ModexRequest {
            generation,
            rank,
            answer,
        });
    }
    Status::SUCCESS
}
