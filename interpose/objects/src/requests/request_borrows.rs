//! Borrows of the requests of this process.

use super::order::Requests;
use crate::Runtime;
use std::cell::{Ref, RefMut};

/// Borrows the requests of this process.
#[inline]
#[track_caller]
pub fn table(rt: &Runtime) -> Ref<'_, Requests> {
    Ref::map(rt.requests.table.borrow(), |table| &table.requests)
}

/// Borrows the requests of this process to change them.
#[inline]
#[track_caller]
pub fn table_mut(rt: &Runtime) -> RefMut<'_, Requests> {
    RefMut::map(rt.requests.table.borrow_mut(), |table| &mut table.requests)
}
