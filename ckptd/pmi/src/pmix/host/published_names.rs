//! Values that processes publish for each other (PMIx_Publish, PMIx_Lookup).
#![allow(unsafe_code)]

use super::host_state::{Host, lock};
use super::lookup::Lookup;
use crate::pmix::abi::{Info, LookupDone, OpDone, Proc, Status};
use crate::pmix::values::{PublishedValue, slice, text_in, texts};
use std::ffi::{c_char, c_void};

pub unsafe extern "C" fn publish(
    proc: *const Proc,
    infos: *const Info,
    count: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process and `count` infos, all valid during the call.
    let (proc, infos) = unsafe { (&*proc, std::slice::from_raw_parts(infos, count)) };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    let Some(owner) = host.owner_of(proc) else {
        return Status::NOT_FOUND;
    };
    let mut values = Vec::new();
    for info in infos {
        let Some(key) = text_in(&info.key) else {
            return Status::BAD_PARAM;
        };
        // Directives (range, persistence, user) have keys of the standard.
        if key.starts_with("pmix.") {
            continue;
        }
        // SAFETY: libpmix has created the value, so its type says which member of the union is
        // valid.
        let Some(value) = (unsafe { PublishedValue::copy(&info.value) }) else {
            return Status::NOT_SUPPORTED;
        };
        values.push((key.to_owned(), value));
    }
    let status = lock(&host.store).publish(&owner, values);
    if status != Status::SUCCESS {
        return status;
    }
    let store = lock(&host.store);
    lock(&host.lookups).retain(|lookup| lookup.is_partial(&store) || !lookup.answer(&store));
    Status::OPERATION_SUCCEEDED
}

/// Makes a lookup wait until all of its keys are published (PMIX_WAIT).
const WAIT: &str = "pmix.wait";

pub unsafe extern "C" fn lookup(
    proc: *const Proc,
    keys: *mut *mut c_char,
    infos: *const Info,
    info_count: usize,
    done: Option<LookupDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process, a list of keys that ends with null, and `info_count`
    // infos, all valid during the call.
    let (proc, keys, infos) = unsafe { (&*proc, texts(keys), slice(infos, info_count)) };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let Some((by, _)) = host.owner_of(proc) else {
        return Status::NOT_FOUND;
    };
    let lookup = Lookup::new(by, keys, done, context);
    let store = lock(&host.store);
    let waits = infos.iter().any(|info| text_in(&info.key) == Some(WAIT));
    if waits && lookup.is_partial(&store) {
        lock(&host.lookups).push(lookup);
    } else if !lookup.answer(&store) {
        return Status::NOT_FOUND;
    }
    Status::SUCCESS
}

pub unsafe extern "C" fn unpublish(
    proc: *const Proc,
    keys: *mut *mut c_char,
    _: *const Info,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process and a list of keys that is null or ends with null,
    // both valid during the call.
    let (proc, keys) = unsafe { (&*proc, texts(keys)) };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    let Some(owner) = host.owner_of(proc) else {
        return Status::NOT_FOUND;
    };
    lock(&host.store).unpublish(&owner, &keys);
    Status::OPERATION_SUCCEEDED
}
