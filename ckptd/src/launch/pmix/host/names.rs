//! What processes publish for each other (PMIx_Publish, PMIx_Lookup).
#![allow(unsafe_code)]

use super::super::abi::{Info, LookupDone, OpDone, Proc, Published, Status};
use super::super::store::Store;
use super::super::values::{Owned, fixed, text_in};
use super::{Host, lock, slice, texts};
use crate::launch::Name;
use std::ffi::{c_char, c_void};

pub unsafe extern "C" fn publish(
    proc: *const Proc,
    infos: *const Info,
    count: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives a process and so many infos.
    let (proc, infos) = unsafe { (&*proc, std::slice::from_raw_parts(infos, count)) };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    let Some(owner) = host.known(proc) else {
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
        // SAFETY: libpmix has made the value.
        let Some(value) = (unsafe { Owned::copy(&info.value) }) else {
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

/// Waits until all of its keys are there (PMIX_WAIT).
const WAIT: &str = "pmix.wait";

/// A process wants to know what has been published.
pub struct Lookup {
    by: Name,
    keys: Vec<String>,
    done: LookupDone,
    context: *mut c_void,
}

// SAFETY: libpmix takes the call from any thread; the context is only handed back.
unsafe impl Send for Lookup {}

impl Lookup {
    fn is_partial(&self, store: &Store) -> bool {
        store.lookup(&self.keys).count() < self.keys.len()
    }

    /// Tells what there is. Whether that is anything; if not, it has been told nothing.
    fn answer(&self, store: &Store) -> bool {
        let published = store
            .lookup(&self.keys)
            .map(|(key, (name, rank), value)| Published {
                by: Proc {
                    namespace: fixed(name.as_str()),
                    rank: rank.0,
                },
                key: fixed(key),
                value: value.lend(),
            });
        let mut published: Vec<Published> = published.collect();
        if !published.is_empty() {
            // SAFETY: it is packed before the call returns, so what is lent by the store is there.
            unsafe {
                (self.done)(
                    Status::SUCCESS,
                    published.as_mut_ptr(),
                    published.len(),
                    self.context,
                )
            };
        }
        !published.is_empty()
    }

    /// Tells it that nothing will come if it is of this namespace. Whether it is of another one.
    pub fn is_not_of(&self, ended: &Name) -> bool {
        let is_other = self.by != *ended;
        if !is_other {
            // SAFETY: nothing is read.
            unsafe { (self.done)(Status::NOT_FOUND, std::ptr::null_mut(), 0, self.context) };
        }
        is_other
    }
}

pub unsafe extern "C" fn lookup(
    proc: *const Proc,
    keys: *mut *mut c_char,
    infos: *const Info,
    info_count: usize,
    done: Option<LookupDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives a process, a list of keys, and so many infos.
    let (proc, keys, infos) = unsafe { (&*proc, texts(keys), slice(infos, info_count)) };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let Some((by, _)) = host.known(proc) else {
        return Status::NOT_FOUND;
    };
    let lookup = Lookup {
        by,
        keys,
        done,
        context,
    };
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
    // SAFETY: libpmix gives a process and a list of keys.
    let (proc, keys) = unsafe { (&*proc, texts(keys)) };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    let Some(owner) = host.known(proc) else {
        return Status::NOT_FOUND;
    };
    lock(&host.store).unpublish(&owner, &keys);
    Status::OPERATION_SUCCEEDED
}
