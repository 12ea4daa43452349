//! Attributes of one object: get, set, copy, delete.
//!
//! Attributes are kept in the order in which they were set. A duplicate gets its copies in that
//! order. Attributes are deleted in the reverse order, which the standard requires for
//! `MPI_COMM_SELF` (11.2.4), and which Open MPI uses for all objects. The tables are not borrowed
//! while a callback of the program runs, since callbacks may use attributes.

use super::callback;
use super::keyvals::{ERR_KEYVAL, KeyvalKind};
use super::value::{AttributeValue, Attributes, Language};
use crate::Runtime;
use crate::arch::mpi_lock;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtDatatype, VirtWin};
use crate::objects::{comm, datatype, objects, objects_mut, window};
use std::cell::RefMut;
use std::ffi::c_int;

/// Object that attributes are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributedObject {
    Comm(VirtComm),
    Datatype(VirtDatatype),
    Win(VirtWin),
}

impl AttributedObject {
    fn kind(self) -> KeyvalKind {
        match self {
            AttributedObject::Comm(_) => KeyvalKind::Comm,
            AttributedObject::Datatype(_) => KeyvalKind::Datatype,
            AttributedObject::Win(_) => KeyvalKind::Win,
        }
    }

    fn handle(self) -> u64 {
        match self {
            AttributedObject::Comm(comm) => comm.0 as u64,
            AttributedObject::Datatype(datatype) => datatype.0 as u64,
            AttributedObject::Win(win) => win.0 as u64,
        }
    }

    /// True if the object exists.
    pub fn exists(self, rt: &Runtime) -> bool {
        match self {
            AttributedObject::Comm(comm) => comm::index(rt, comm).is_some(),
            AttributedObject::Datatype(datatype) => {
                datatype::index_of_created(rt, datatype).is_some()
                    || datatype::is_predefined(rt, datatype)
            }
            AttributedObject::Win(win) => window::index(rt, win).is_some(),
        }
    }

    fn attributes(self, rt: &Runtime) -> Option<RefMut<'_, Attributes>> {
        match self {
            AttributedObject::Comm(comm) => comm::attributes(rt, comm),
            AttributedObject::Datatype(datatype) => datatype::attributes(rt, datatype),
            AttributedObject::Win(win) => window::attributes(rt, win),
        }
    }

    fn attributes_for_update(self, rt: &Runtime) -> Option<RefMut<'_, Attributes>> {
        match self {
            AttributedObject::Comm(comm) => comm::attributes(rt, comm),
            AttributedObject::Datatype(datatype) => datatype::attributes_for_update(rt, datatype),
            AttributedObject::Win(win) => window::attributes(rt, win),
        }
    }

    fn value(self, rt: &Runtime, key: c_int) -> Option<AttributeValue> {
        self.attributes(rt)?
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| *value)
    }

    /// True if the call is deferred; the handler must return at once.
    ///
    /// Calls that run callbacks must not overlap on one object. Therefore such a call is deferred
    /// while a callback of another thread runs, for whichever object.
    pub fn defer_for_callbacks(self, rt: &Runtime) -> bool {
        mpi_lock::is_during_callback() && self.has_callbacks(rt) && mpi_lock::repeat_call()
    }

    fn has_callbacks(self, rt: &Runtime) -> bool {
        let keys: Vec<i32> = self
            .attributes(rt)
            .map_or_else(Vec::new, |all| all.iter().map(|&(key, _)| key).collect());
        let keyval = |key| objects(rt).keyvals.get(self.kind(), key);
        keys.into_iter()
            .filter_map(keyval)
            .any(|keyval| callback::has_callbacks(&keyval))
    }

    /// Returns the value of an attribute; `None` if it is not set.
    ///
    /// Returns an error if the key does not exist.
    pub fn get(self, rt: &Runtime, key: c_int) -> Result<Option<AttributeValue>, c_int> {
        objects(rt)
            .keyvals
            .get(self.kind(), key)
            .ok_or(ERR_KEYVAL)?;
        Ok(self.value(rt, key))
    }

    /// Sets an attribute, after the delete function has been called for an existing value (7.7.2).
    pub fn set(self, rt: &Runtime, key: c_int, value: u64, language: Language) -> c_int {
        if objects(rt).keyvals.get(self.kind(), key).is_none() {
            return ERR_KEYVAL;
        }
        match self.remove(rt, key) {
            SUCCESS => match AttributeValue::new(value, language) {
                Ok(value) => self.attach(rt, key, value),
                Err(rc) => return rc,
            },
            rc => return rc,
        }
        SUCCESS
    }

    pub fn delete(self, rt: &Runtime, key: c_int) -> c_int {
        match self.get(rt, key) {
            Ok(Some(_)) => self.remove(rt, key),
            // Open MPI also reports this error for an attribute that is not set.
            _ => ERR_KEYVAL,
        }
    }

    fn attach(self, rt: &Runtime, key: c_int, value: AttributeValue) {
        let Some(mut attributes) = self.attributes_for_update(rt) else {
            return value.free();
        };
        attributes.push((key, value));
        drop(attributes);
        objects_mut(rt).keyvals.add_use(key);
    }

    /// Removes an attribute, if it is set and its delete function succeeds.
    fn remove(self, rt: &Runtime, key: c_int) -> c_int {
        let (Some(value), Some(keyval)) = (
            self.value(rt, key),
            objects(rt).keyvals.get(self.kind(), key),
        ) else {
            return SUCCESS;
        };
        let rc = callback::delete(rt, &keyval, self.handle(), key, value);
        if rc != SUCCESS {
            return rc;
        }
        let Some(mut attributes) = self.attributes(rt) else {
            return SUCCESS;
        };
        if let Some(position) = attributes.iter().position(|(known, _)| *known == key) {
            let (_, value) = attributes.remove(position);
            drop(attributes);
            value.free();
            objects_mut(rt).keyvals.remove_use(key);
        }
        SUCCESS
    }

    /// Runs the copy functions of all attributes.
    ///
    /// Removes all attributes that the new object has received if a copy function fails.
    fn copy_to(self, rt: &Runtime, new: AttributedObject) -> Result<(), c_int> {
        let all = self.attributes(rt).map_or_else(Vec::new, |all| all.clone());
        for (key, value) in all {
            let Some(keyval) = objects(rt).keyvals.get(self.kind(), key) else {
                continue;
            };
            match callback::copy(rt, &keyval, self.handle(), key, value) {
                Ok(Some(value)) => new.attach(rt, key, value),
                Ok(None) => (),
                Err(rc) => {
                    new.remove_all(rt);
                    return Err(rc);
                }
            }
        }
        Ok(())
    }

    /// Deletes all attributes of an object, in the reverse order of their setting.
    ///
    /// Stops at the first delete function that fails, and returns its error.
    fn remove_all(self, rt: &Runtime) -> c_int {
        let keys: Vec<i32> = self
            .attributes(rt)
            .map(|all| all.iter().rev().map(|&(key, _)| key).collect())
            .unwrap_or_default();
        keys.into_iter()
            .map(|key| self.remove(rt, key))
            .find(|&rc| rc != SUCCESS)
            .unwrap_or(SUCCESS)
    }
}

/// Copies the attributes of a communicator that is duplicated (7.7.2); runs its callbacks.
pub fn copy_comm(rt: &Runtime, old: VirtComm, new: VirtComm) -> c_int {
    AttributedObject::Comm(old)
        .copy_to(rt, AttributedObject::Comm(new))
        .err()
        .unwrap_or(SUCCESS)
}

/// Deletes the attributes of a communicator that is freed; runs its callbacks.
///
/// Must be called for `MPI_COMM_SELF` at the start of `MPI_Finalize` (11.2.4).
pub fn delete_comm(rt: &Runtime, comm: VirtComm) -> c_int {
    AttributedObject::Comm(comm).remove_all(rt)
}

/// Copies the attributes of a datatype that is duplicated (7.7.4).
pub fn copy_type(rt: &Runtime, old: VirtDatatype, new: VirtDatatype) -> Result<(), c_int> {
    AttributedObject::Datatype(old).copy_to(rt, AttributedObject::Datatype(new))
}

/// Deletes the attributes of a window that is freed.
pub fn delete_win(rt: &Runtime, win: VirtWin) -> c_int {
    AttributedObject::Win(win).remove_all(rt)
}

/// Deletes the attributes of a datatype that is freed.
pub fn delete_type(rt: &Runtime, datatype: VirtDatatype) -> c_int {
    AttributedObject::Datatype(datatype).remove_all(rt)
}
