//! Attribute keys and attributes (MPI 4.1, 7.7) of communicators, datatypes and windows, wholly on our side.
//!
//! Attributes are kept in the order in which they were set: a duplicate gets its copies in that order, and they are
//! deleted in the reverse one, which the standard demands for `MPI_COMM_SELF` (11.2.4) and Open MPI does for all. No
//! borrow of the tables is held while a callback of the program runs, since that may use attributes itself.
#![allow(unsafe_code)]

mod callback;
pub mod value;

use super::{Slots, comm, datatype, objects, objects_mut, window};
use crate::arch::turn;
use crate::errors::SUCCESS;
use crate::generated::HandleKind;
use crate::handles::{VirtComm, VirtDatatype, VirtWin};
use crate::objects::Runtime;
pub use callback::DUPLICATE;
use std::cell::RefMut;
use std::ffi::c_int;
use value::{Attributes, Language, Value};

pub const ERR_KEYVAL: c_int = 36;
pub const INVALID: c_int = -1;
/// The first key; those of predefined attributes are smaller.
const FIRST: c_int = 1000;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Comm,
    Datatype,
    Win,
}

impl Kind {
    /// The kind of their handles.
    fn handles(self) -> HandleKind {
        match self {
            Kind::Comm => HandleKind::Comm,
            Kind::Datatype => HandleKind::Datatype,
            Kind::Win => HandleKind::Win,
        }
    }
}

/// Addresses of two functions of MPICH's bindings for another language that call the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Proxy {
    /// Calls the copy function.
    pub copy: u64,
    /// Calls the delete function.
    pub delete: u64,
}

/// What the program has said about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Keyval {
    /// What it is for.
    pub kind: Kind,
    /// Address of the copy function.
    pub copy: u64,
    /// Address of the delete function.
    pub delete: u64,
    pub extra_state: u64,
    /// What the functions take and give.
    pub language: Language,
    /// What calls them, where MPICH's bindings have told.
    pub proxy: Option<Proxy>,
    /// Number of attributes with this key.
    pub uses: u32,
    /// The program has freed it; it lives on in its attributes (7.7.2).
    pub freed: bool,
}

#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Keyvals {
    entries: Slots<Keyval>,
}

impl Keyvals {
    pub const NONE: Keyvals = Keyvals {
        entries: Slots::NONE,
    };

    pub fn create(
        &mut self,
        kind: Kind,
        (copy, delete): (u64, u64),
        language: Language,
        extra_state: u64,
    ) -> c_int {
        FIRST
            + self.entries.insert(Keyval {
                kind,
                copy,
                delete,
                extra_state,
                language,
                proxy: None,
                uses: 0,
                freed: false,
            }) as c_int
    }

    /// A key's functions are called by way of these from now on.
    pub fn set_proxy(&mut self, key: c_int, proxy: Proxy) {
        self.change(key, |keyval| {
            keyval.proxy = Some(proxy);
            keyval.language = Language::Fortran;
        });
    }

    fn index(key: c_int) -> Option<u32> {
        u32::try_from(key.checked_sub(FIRST)?).ok()
    }

    /// A key of this kind. One that the program has freed can be used as long as it is attached: to delete the attributes one by one,
    /// for instance (7.7.2).
    pub fn get(&self, kind: Kind, key: c_int) -> Option<Keyval> {
        let keyval = self.entries.get(Self::index(key)?).copied();
        keyval.filter(|keyval| keyval.kind == kind)
    }

    /// Frees a key; whether there is one. As long as it is attached it may be freed again, as by a callback that deletes an attribute.
    pub fn free(&mut self, kind: Kind, key: c_int) -> bool {
        let is_there = self.get(kind, key).is_some();
        self.change(key, |keyval| keyval.freed |= is_there);
        is_there
    }

    fn add_use(&mut self, key: c_int) {
        self.change(key, |keyval| keyval.uses += 1);
    }

    fn remove_use(&mut self, key: c_int) {
        self.change(key, |keyval| keyval.uses = keyval.uses.saturating_sub(1));
    }

    /// Changes an entry and removes it if it is freed and not used.
    fn change(&mut self, key: c_int, change: impl FnOnce(&mut Keyval)) {
        let Some(index) = Self::index(key) else {
            return;
        };
        let Some(keyval) = self.entries.get_mut(index) else {
            return;
        };
        change(keyval);
        if keyval.freed && keyval.uses == 0 {
            self.entries.remove(index);
        }
    }
}

/// What attributes are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Comm(VirtComm),
    Datatype(VirtDatatype),
    Win(VirtWin),
}

impl Object {
    fn kind(self) -> Kind {
        match self {
            Object::Comm(_) => Kind::Comm,
            Object::Datatype(_) => Kind::Datatype,
            Object::Win(_) => Kind::Win,
        }
    }

    fn handle(self) -> u64 {
        match self {
            Object::Comm(comm) => comm.0 as u64,
            Object::Datatype(datatype) => datatype.0 as u64,
            Object::Win(win) => win.0 as u64,
        }
    }

    /// Whether there is such an object.
    pub fn exists(self, rt: &Runtime) -> bool {
        match self {
            Object::Comm(comm) => comm::index(rt, comm).is_some(),
            Object::Datatype(datatype) => {
                datatype::index(rt, datatype).is_some() || datatype::is_predefined(rt, datatype)
            }
            Object::Win(win) => window::index(rt, win).is_some(),
        }
    }

    fn attributes(self, rt: &Runtime) -> Option<RefMut<'_, Attributes>> {
        match self {
            Object::Comm(comm) => comm::attributes(rt, comm),
            Object::Datatype(datatype) => datatype::attributes(rt, datatype),
            Object::Win(win) => window::attributes(rt, win),
        }
    }

    fn attributes_to_set(self, rt: &Runtime) -> Option<RefMut<'_, Attributes>> {
        match self {
            Object::Comm(comm) => comm::attributes(rt, comm),
            Object::Datatype(datatype) => datatype::attributes_to_set(rt, datatype),
            Object::Win(win) => window::attributes(rt, win),
        }
    }

    fn value(self, rt: &Runtime, key: c_int) -> Option<Value> {
        self.attributes(rt)?
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| *value)
    }

    /// Whether this call is to be made later, as it may lead to callbacks and is made in the time of another thread's: those of one object run one
    /// after the other. The handler is to return at once.
    pub fn is_for_later(self, rt: &Runtime) -> bool {
        turn::is_borrowed() && self.has_callbacks(rt) && turn::make_again()
    }

    fn has_callbacks(self, rt: &Runtime) -> bool {
        let keys: Vec<i32> = self
            .attributes(rt)
            .map_or_else(Vec::new, |all| all.iter().map(|&(key, _)| key).collect());
        let keyval = |key| objects(rt).keyvals.get(self.kind(), key);
        keys.into_iter()
            .filter_map(keyval)
            .any(|keyval| callback::is_any(&keyval))
    }

    /// The value of an attribute; an error if there is no such key.
    pub fn get(self, rt: &Runtime, key: c_int) -> Result<Option<Value>, c_int> {
        objects(rt)
            .keyvals
            .get(self.kind(), key)
            .ok_or(ERR_KEYVAL)?;
        Ok(self.value(rt, key))
    }

    /// Sets an attribute; the delete function is called for a value that is there (7.7.2).
    pub fn set(self, rt: &Runtime, key: c_int, value: u64, language: Language) -> c_int {
        if objects(rt).keyvals.get(self.kind(), key).is_none() {
            return ERR_KEYVAL;
        }
        match self.remove(rt, key) {
            SUCCESS => match Value::new(value, language) {
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
            // What has no value cannot be deleted in Open MPI either.
            _ => ERR_KEYVAL,
        }
    }

    fn attach(self, rt: &Runtime, key: c_int, value: Value) {
        let Some(mut attributes) = self.attributes_to_set(rt) else {
            return value.free();
        };
        attributes.push((key, value));
        drop(attributes);
        objects_mut(rt).keyvals.add_use(key);
    }

    /// Removes an attribute if it is there, after its delete function has agreed.
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

    /// The attributes' copy functions run; if one fails, the new object loses what it has been given.
    fn copy_to(self, rt: &Runtime, new: Object) -> Result<(), c_int> {
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

    /// The object goes: all its attributes are deleted. The first delete function that fails ends it.
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

/// Copies the attributes of a communicator that is duplicated (7.7.2); its callbacks run.
pub fn copy_comm(rt: &Runtime, old: VirtComm, new: VirtComm) -> c_int {
    Object::Comm(old)
        .copy_to(rt, Object::Comm(new))
        .err()
        .unwrap_or(SUCCESS)
}

/// Deletes the attributes of a communicator that is freed; its callbacks run. To be called for `MPI_COMM_SELF` at the
/// start of `MPI_Finalize` (11.2.4).
pub fn delete_comm(rt: &Runtime, comm: VirtComm) -> c_int {
    Object::Comm(comm).remove_all(rt)
}

/// Copies the attributes of a datatype that is duplicated (7.7.4).
pub fn copy_type(rt: &Runtime, old: VirtDatatype, new: VirtDatatype) -> Result<(), c_int> {
    Object::Datatype(old).copy_to(rt, Object::Datatype(new))
}

/// Deletes the attributes of a window that is freed.
pub fn delete_win(rt: &Runtime, win: VirtWin) -> c_int {
    Object::Win(win).remove_all(rt)
}

/// Deletes the attributes of a datatype that is freed.
pub fn delete_type(rt: &Runtime, datatype: VirtDatatype) -> c_int {
    Object::Datatype(datatype).remove_all(rt)
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Keyvals, Kind, Language};

    #[test]
    fn keys_are_given_out_in_order_and_are_of_one_kind() {
        let mut keyvals = Keyvals::default();
        assert_eq!(
            (
                keyvals.create(Kind::Comm, (1, 2), Language::C, 3),
                keyvals.create(Kind::Datatype, (4, 5), Language::C, 6)
            ),
            (FIRST, FIRST + 1)
        );
        assert!(
            keyvals
                .get(Kind::Comm, FIRST)
                .is_some_and(|keyval| keyval.copy == 1 && keyval.extra_state == 3)
        );
        assert!(keyvals.get(Kind::Datatype, FIRST).is_none());
        assert!(
            keyvals.get(Kind::Comm, 0).is_none() && keyvals.get(Kind::Comm, i32::MIN).is_none()
        );
        assert!(!keyvals.free(Kind::Comm, FIRST + 1) && keyvals.free(Kind::Datatype, FIRST + 1));
        assert_eq!(
            keyvals.create(Kind::Comm, (0, 0), Language::C, 0),
            FIRST + 1
        );
    }

    #[test]
    fn a_freed_key_lives_on_in_its_attributes() {
        let mut keyvals = Keyvals::default();
        let key = keyvals.create(Kind::Comm, (0, 0), Language::C, 0);
        keyvals.add_use(key);
        keyvals.add_use(key);
        assert!(keyvals.free(Kind::Comm, key) && keyvals.free(Kind::Comm, key));
        assert!(
            keyvals.get(Kind::Comm, key).is_some() && keyvals.get(Kind::Datatype, key).is_none()
        );
        assert_eq!(keyvals.create(Kind::Comm, (0, 0), Language::C, 0), key + 1);
        keyvals.remove_use(key);
        assert!(keyvals.get(Kind::Comm, key).is_some());
        keyvals.remove_use(key);
        assert!(keyvals.get(Kind::Comm, key).is_none() && !keyvals.free(Kind::Comm, key));
        assert_eq!(keyvals.create(Kind::Comm, (0, 0), Language::C, 0), key);
    }
}
