//! A process that waits for published values.
#![allow(unsafe_code)]

use crate::Name;
use crate::pmix::abi::{LookupDone, Proc, Published, Status};
use crate::pmix::name_store::NameStore;
use crate::pmix::values::fixed;
use std::ffi::c_void;

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
    pub fn new(by: Name, keys: Vec<String>, done: LookupDone, context: *mut c_void) -> Lookup {
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

    /// Tells what there is. Whether that is anything; if not, it has been told nothing.
    pub fn answer(&self, store: &NameStore) -> bool {
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
