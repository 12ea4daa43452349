//! Fences of ranks, and bytes that one rank wants of another (PMIx_Fence, PMIx_Connect, PMIx_Get).
#![allow(unsafe_code)]

use super::host_state::{HOST, Host};
use crate::pmix::abi::{Info, ModexDone, OpDone, Proc, Status, Type};
use crate::pmix::values::{bytes_at, slice, text_in};
use crate::{Answer, Members, Modex, Purpose};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Connects processes when all have come that are on this node. It must be there: when a process
/// dies that has asked for it, libpmix calls it unseen.
pub unsafe extern "C" fn connect(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    done: Option<OpDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives so many processes and infos.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        meet(Purpose::Connect, procs, infos, Met { done, context })
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
    // SAFETY: libpmix gives so many processes and infos.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        meet(Purpose::Disconnect, procs, infos, Met { done, context })
    }
}

/// Answers in any case: of what its host refuses, libpmix releases more than once, or lets the
/// processes wait.
///
/// # Safety
/// libpmix has made the infos, and waits for the call of the function.
unsafe fn meet(purpose: Purpose, procs: &[Proc], infos: &[Info], waiting: Met) -> Status {
    // SAFETY: as the caller says.
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

/// A function of libpmix that waits until processes of other nodes have come, too.
struct Met {
    done: Option<OpDone>,
    context: *mut c_void,
}

// SAFETY: libpmix takes the call from any thread; the context is only handed back.
unsafe impl Send for Met {}

impl Met {
    /// Calls it, unless libpmix has been shut down.
    fn answer(self, have_come: bool) {
        let host = HOST.read();
        if let (Some(_), Some(done)) = (&*host, self.done) {
            let status = match have_come {
                true => Status::SUCCESS,
                false => Status::LOST_CONNECTION,
            };
            // SAFETY: it is called once; the lock keeps libpmix up meanwhile.
            unsafe { done(status, self.context) };
        }
    }
}

/// A function of libpmix that waits for bytes, with what it wants back.
struct Waiting {
    done: ModexDone,
    context: *mut c_void,
}

// SAFETY: libpmix takes the call from any thread; the context is only handed back.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Calls it, unless libpmix has been shut down.
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
        // SAFETY: the bytes stay until `release` is called with their owner; the lock keeps libpmix
        // up meanwhile.
        unsafe { (self.done)(status, start, size, self.context, Some(release), owner) };
    }
}

unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: it is what `Waiting::answer` has made, and comes back once.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// Whether all ranks of this node that take part have come to a fence: libpmix calls, too, when
/// those have come that are left.
///
/// # Safety
/// libpmix has made the infos.
unsafe fn is_complete(infos: &[Info]) -> bool {
    let status = infos
        .iter()
        .find(|info| text_in(&info.key) == Some("pmix.loc.col.st"));
    let is_success = |info: &Info| {
        // SAFETY: the type tells which field is there.
        info.value.of != Type::STATUS || unsafe { info.value.data.status } == Status::SUCCESS
    };
    status.is_none_or(is_success)
}

/// Who comes to a fence, and to which host; nothing if it is not [complete](is_complete), or one of
/// their namespaces has ended.
///
/// # Safety
/// libpmix has made the infos.
unsafe fn gathered(procs: &[Proc], infos: &[Info]) -> Option<(Members, Arc<Host>)> {
    // SAFETY: as the caller says.
    let host = Host::current().filter(|_| unsafe { is_complete(infos) })?;
    Some((host.members(procs)?, host))
}

/// Answers as [`meet`] does.
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
    // SAFETY: libpmix gives so many processes and infos, and so many bytes, which are the host's
    // from now on.
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
    let waiting = Waiting { done, context };
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
    // SAFETY: libpmix says whose data it wants.
    let proc = unsafe { &*proc };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let Some((generation, rank)) = host.known(proc) else {
        return Status::NOT_FOUND;
    };
    let waiting = Waiting { done, context };
    let (answer, recall) = Answer::new(Box::new(move |reply| waiting.answer(reply)));
    if host.ask(std::iter::once(&generation), &recall) {
        host.peers.modex(Modex {
            generation,
            rank,
            answer,
        });
    }
    Status::SUCCESS
}
