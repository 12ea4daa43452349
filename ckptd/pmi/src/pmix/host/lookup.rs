//! Lookup of published values that a process waits for.
#![allow(unsafe_code)]

use crate::GenerationName;
use crate::pmix::abi::{LookupDone, Proc, Published, Status};
use crate::pmix::name_store::NameStore;
use crate::pmix::values::fixed;
use std::ffi::c_void;

/// Lookup of published values by a process.
pub struct Lookup {
    by: GenerationName,
    keys: Vec<String>,
    done: LookupDone,
    context: *mut c_void,
}

// SAFETY: libpmix accepts the call from any thread; the context is only passed back to it.
unsafe impl Send for Lookup {}

impl Lookup {
    pub fn new(
        by: GenerationName,
        keys: Vec<String>,
        done: LookupDone,
        context: *mut c_void,
    ) -> Lookup {
        Lookup {
            by,
            keys,
            done,
            context,
        }
    }

    pub fn is_partial(&self, store: &NameStore) -> bool {
        store.lookup(&self.keys).count() < self.keys.len()
    }

    /// Replies with the published values; returns false, without a reply, if no value is
    /// published.
    pub fn answer(&self, store: &NameStore) -> bool {
        let published = store
            .lookup(&self.keys)
            .map(|(key, (name, rank), value)| Published {
                by: Proc {
                    namespace: fixed(name.as_str()),
                    rank: rank.0,
                },
                key: fixed(key),
                value: value.borrowed(),
            });
        let mut published: Vec<Published> = published.collect();
        if !published.is_empty() {
            // SAFETY: libpmix packs the values before the call returns, while `store` keeps them
            // alive.
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

    /// Ends the lookup if its process belongs to `ended`; returns true otherwise.
    pub fn is_not_of(&self, ended: &GenerationName) -> bool {
        let is_other = self.by != *ended;
        if !is_other {
            // SAFETY: libpmix reads no values if the count is 0.
            unsafe { (self.done)(Status::NOT_FOUND, std::ptr::null_mut(), 0, self.context) };
        }
        is_other
    }
}
