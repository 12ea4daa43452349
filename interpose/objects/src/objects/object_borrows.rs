//! Borrows of the objects of this process.

use super::object_tables::Objects;
use crate::Runtime;
use std::cell::{Ref, RefMut};

/// Borrows the objects of this process.
///
/// A borrow must end before a callback of the program runs.
#[inline]
#[track_caller]
pub fn objects(rt: &Runtime) -> Ref<'_, Objects> {
    rt.objects.all.borrow()
}

/// Borrows the objects to change them.
#[inline]
#[track_caller]
pub fn objects_mut(rt: &Runtime) -> RefMut<'_, Objects> {
    rt.objects.discard_recent_part();
    rt.objects.all.borrow_mut()
}
