//! Attribute keys, and the functions that copy and delete attributes.
//!
//! Plain data: this file calls no callback.

use super::value::Language;
use crate::generated::HandleKind;
use crate::objects::slots::Slots;
use std::ffi::c_int;

pub const ERR_KEYVAL: c_int = 36;
pub const INVALID_KEY: c_int = -1;

/// First key of the program; the keys of predefined attributes are smaller.
const FIRST_KEY: c_int = 1000;

/// Kind of objects that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum KeyvalKind {
    Comm,
    Datatype,
    Win,
}

impl KeyvalKind {
    /// Returns the kind of the handles of these objects.
    pub(super) fn handle_kind(self) -> HandleKind {
        match self {
            KeyvalKind::Comm => HandleKind::Comm,
            KeyvalKind::Datatype => HandleKind::Datatype,
            KeyvalKind::Win => HandleKind::Win,
        }
    }
}

/// Functions of MPICH's Fortran bindings, which call the program's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct CallbackProxies {
    /// Calls the copy function.
    pub copy: u64,
    /// Calls the delete function.
    pub delete: u64,
}

/// Key that the program has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Keyval {
    /// Kind of objects that the key is for.
    pub kind: KeyvalKind,
    /// Address of the copy function.
    pub copy: u64,
    /// Address of the delete function.
    pub delete: u64,
    pub extra_state: u64,
    /// Language of the functions' arguments and results.
    pub language: Language,
    /// Proxies that call the functions, if MPICH's bindings have registered any.
    pub proxy: Option<CallbackProxies>,
    /// Number of attributes with this key.
    pub uses: u32,
    /// True if the program has freed the key, which stays valid in its attributes (7.7.2).
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
        kind: KeyvalKind,
        (copy, delete): (u64, u64),
        language: Language,
        extra_state: u64,
    ) -> c_int {
        FIRST_KEY
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

    /// Registers proxies, through which the key's functions are called from now on.
    pub fn set_proxy(&mut self, key: c_int, proxy: CallbackProxies) {
        self.change(key, |keyval| {
            keyval.proxy = Some(proxy);
            keyval.language = Language::Fortran;
        });
    }

    fn index(key: c_int) -> Option<u32> {
        u32::try_from(key.checked_sub(FIRST_KEY)?).ok()
    }

    /// Returns a key of this kind.
    ///
    /// A key that the program has freed remains usable while attributes with the key are set, for
    /// instance to delete them one by one (7.7.2).
    pub fn get(&self, kind: KeyvalKind, key: c_int) -> Option<Keyval> {
        let keyval = self.entries.get(Self::index(key)?).copied();
        keyval.filter(|keyval| keyval.kind == kind)
    }

    /// Frees a key; returns false if the key does not exist.
    ///
    /// While attributes with the key are set, it may be freed several times, for instance by a
    /// callback that deletes an attribute.
    pub fn free(&mut self, kind: KeyvalKind, key: c_int) -> bool {
        let exists = self.get(kind, key).is_some();
        self.change(key, |keyval| keyval.freed |= exists);
        exists
    }

    pub(super) fn add_use(&mut self, key: c_int) {
        self.change(key, |keyval| keyval.uses += 1);
    }

    pub(super) fn remove_use(&mut self, key: c_int) {
        self.change(key, |keyval| keyval.uses = keyval.uses.saturating_sub(1));
    }

    /// Changes an entry, and removes it if the key is freed and unused.
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

#[cfg(test)]
mod tests {
    use super::{FIRST_KEY, KeyvalKind, Keyvals, Language};

    #[test]
    fn keys_are_given_out_in_order_and_are_of_one_kind() {
        let mut keyvals = Keyvals::default();
        assert_eq!(
            (
                keyvals.create(KeyvalKind::Comm, (1, 2), Language::C, 3),
                keyvals.create(KeyvalKind::Datatype, (4, 5), Language::C, 6)
            ),
            (FIRST_KEY, FIRST_KEY + 1)
        );
        assert!(
            keyvals
                .get(KeyvalKind::Comm, FIRST_KEY)
                .is_some_and(|keyval| keyval.copy == 1 && keyval.extra_state == 3)
        );
        assert!(keyvals.get(KeyvalKind::Datatype, FIRST_KEY).is_none());
        assert!(
            keyvals.get(KeyvalKind::Comm, 0).is_none()
                && keyvals.get(KeyvalKind::Comm, i32::MIN).is_none()
        );
        assert!(
            !keyvals.free(KeyvalKind::Comm, FIRST_KEY + 1)
                && keyvals.free(KeyvalKind::Datatype, FIRST_KEY + 1)
        );
        assert_eq!(
            keyvals.create(KeyvalKind::Comm, (0, 0), Language::C, 0),
            FIRST_KEY + 1
        );
    }

    #[test]
    fn a_freed_key_lives_on_in_its_attributes() {
        let mut keyvals = Keyvals::default();
        let key = keyvals.create(KeyvalKind::Comm, (0, 0), Language::C, 0);
        keyvals.add_use(key);
        keyvals.add_use(key);
        assert!(keyvals.free(KeyvalKind::Comm, key) && keyvals.free(KeyvalKind::Comm, key));
        assert!(
            keyvals.get(KeyvalKind::Comm, key).is_some()
                && keyvals.get(KeyvalKind::Datatype, key).is_none()
        );
        assert_eq!(
            keyvals.create(KeyvalKind::Comm, (0, 0), Language::C, 0),
            key + 1
        );
        keyvals.remove_use(key);
        assert!(keyvals.get(KeyvalKind::Comm, key).is_some());
        keyvals.remove_use(key);
        assert!(
            keyvals.get(KeyvalKind::Comm, key).is_none() && !keyvals.free(KeyvalKind::Comm, key)
        );
        assert_eq!(
            keyvals.create(KeyvalKind::Comm, (0, 0), Language::C, 0),
            key
        );
    }
}
