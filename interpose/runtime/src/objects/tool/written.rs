//! What the program has written to control variables, and when.
//!
//! Some variables are looked at when a communicator is made (Open MPI's `coll_tuned_allreduce_algorithm`, say), others when a
//! procedure is called. So a communicator remembers how many writes there had been when it was made, and is made again with the values of
//! then; after that the last values are in force.

#![allow(unsafe_code)]

use super::{Cvar, is_open, make_cvar, open};
use crate::errors::{SUCCESS, succeeded};
use crate::generated::real;
use crate::objects::comm::{Comm, SELF};
use crate::objects::{Runtime, not_made_again, objects, objects_mut};
use std::ffi::{c_int, c_void};
use understudy_mpi::call::Apart;

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Write {
    /// The first one has 1.
    number: u64,
    name: Vec<u8>,
    /// See [`Cvar::object`].
    object: u64,
    value: Vec<u8>,
}

impl Write {
    fn is_same(&self, name: &[u8], object: u64) -> bool {
        self.name == name && self.object == object
    }
}

/// All writes that a communicator was made after, and no later one to the same variable; and the last ones.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Written {
    count: u64,
    /// In their order.
    writes: Vec<Write>,
}

impl Written {
    /// Nothing.
    pub const NONE: Written = Written {
        count: 0,
        writes: Vec::new(),
    };

    /// Takes down another write, and forgets those to the same variable that nobody needs: `comms` are the numbers of writes
    /// that had been made before each of the communicators.
    fn note(&mut self, name: &[u8], object: u64, value: Vec<u8>, comms: &[u64]) {
        self.count += 1;
        let mut next = self.count;
        let needed = |from: u64, to: u64| {
            comms
                .iter()
                .any(|made_after| (from..to).contains(made_after))
        };
        let mut kept: Vec<Write> = Vec::with_capacity(self.writes.len() + 1);
        for write in self.writes.drain(..).rev() {
            let is_same = write.is_same(name, object);
            let is_needed = !is_same || needed(write.number, next);
            if is_same {
                next = write.number;
            }
            if is_needed {
                kept.push(write);
            }
        }
        kept.reverse();
        kept.push(Write {
            number: self.count,
            name: name.to_vec(),
            object,
            value,
        });
        self.writes = kept;
    }

    /// The last write to each variable among the first `count`, in their order.
    fn after(&self, count: u64) -> impl Iterator<Item = &Write> {
        let before = move || {
            self.writes
                .iter()
                .filter(move |write| write.number <= count)
        };
        before().filter(move |write| {
            let is_later = |other: &Write| {
                other.number > write.number && other.is_same(&write.name, write.object)
            };
            !before().any(is_later)
        })
    }
}

/// How many writes there have been.
pub fn count(rt: &Runtime) -> u64 {
    objects(rt).tool.written.count
}

/// Puts on record what the program has written to a control variable.
pub fn note(rt: &Runtime, cvar: &Cvar, value: Vec<u8>) {
    let objects = &mut *objects_mut(rt);
    let made_after: Vec<u64> = made_after(objects.comms.iter()).collect();
    objects
        .tool
        .written
        .note(&cvar.name, cvar.object, value, &made_after);
}

/// Of communicators that the program has made.
fn made_after<'c>(comms: impl Iterator<Item = (u32, &'c Comm)>) -> impl Iterator<Item = u64> {
    comms
        .filter(|&(index, _)| index > SELF)
        .map(|(_, comm)| comm.writes)
}

/// Whether a communicator of this process was made after a write.
pub fn precede(rt: &Runtime) -> bool {
    let objects = objects(rt);
    let first = objects
        .tool
        .written
        .writes
        .first()
        .map(|write| write.number);
    first
        .is_some_and(|first| made_after(objects.comms.iter()).any(|made_after| made_after >= first))
}

/// The values of a new generation, before any has been written again.
pub struct Fresh(Vec<Write>);

impl Fresh {
    /// Of the variables that the program has written. (One that is bound to an object has no value before that is made again.)
    pub fn read(rt: &Runtime) -> Fresh {
        let mut found: Vec<Write> = Vec::new();
        if !open_again(rt) {
            return Fresh(found);
        }
        for write in objects(rt)
            .tool
            .written
            .writes
            .iter()
            .filter(|write| write.object == 0)
        {
            if !found.iter().any(|other| other.is_same(&write.name, 0))
                && let Ok(value) = read(rt, write)
            {
                found.push(Write {
                    value,
                    ..write.clone()
                });
            }
        }
        Fresh(found)
    }

    /// Calls `make` with the values in force that the program had given its variables by its first `count` writes, and with fresh ones
    /// of the others. After it all are fresh.
    pub fn in_force<T>(&self, rt: &Runtime, count: u64, make: impl FnOnce() -> T) -> T {
        let written = objects(rt).tool.written.clone();
        let unbound = || written.after(count).filter(|write| write.object == 0);
        unbound().for_each(|write| write_again(rt, write));
        let made = make();
        let is_changed = |fresh: &&Write| unbound().any(|write| write.is_same(&fresh.name, 0));
        self.0
            .iter()
            .filter(is_changed)
            .for_each(|write| write_again(rt, write));
        made
    }
}

/// Opens the library's interface again, if there is any use for it. (Values last when the program has finalised it.)
pub(super) fn open_again(rt: &Runtime) -> bool {
    if !is_open(rt) && count(rt) == 0 {
        return false;
    }
    let is_library_open = rt.tools.borrow().is_open;
    let opened = is_library_open || open(rt, 0, &mut 0, false) == SUCCESS;
    if !opened {
        log::error!("the tool interface of MPI could not be initialised again");
    }
    opened
}

/// Puts the last values in force.
pub(super) fn all_again(rt: &Runtime) {
    let written = objects(rt).tool.written.clone();
    written
        .after(u64::MAX)
        .for_each(|write| write_again(rt, write));
}

fn write_again(rt: &Runtime, write: &Write) {
    let done = with_handle(rt, write, |handle, _| {
        // SAFETY: a handle of the variable that this value was written to, or read from.
        succeeded(unsafe { real::PMPI_T_cvar_write(handle, write.value.as_ptr().cast()) })
    });
    if let Err(rc) = done {
        not_made_again(
            &format!("variable {}", String::from_utf8_lossy(&write.name)),
            rc,
        );
    }
}

/// The value now, perhaps with some bytes behind it.
fn read(rt: &Runtime, write: &Write) -> Result<Vec<u8>, c_int> {
    with_handle(rt, write, |handle, count| {
        let mut value = vec![0; LARGEST * count.max(0) as usize + TEXT];
        // SAFETY: there is room for so many elements of any type, or a text.
        succeeded(unsafe { real::PMPI_T_cvar_read(handle, value.as_mut_ptr().cast()) })?;
        Ok(value)
    })
}

/// Of an element of a variable, in bytes.
const LARGEST: usize = 8;
/// Texts may be longer than the library says when they are set later.
const TEXT: usize = 4096;

fn with_handle<T>(
    rt: &Runtime,
    write: &Write,
    call: impl FnOnce(*mut c_void, c_int) -> Result<T, c_int>,
) -> Result<T, c_int> {
    let cvar = Cvar {
        name: write.name.clone(),
        object: write.object,
        count: 0,
    };
    let (mut handle, count) = make_cvar(rt, &cvar)?;
    let _apart = Apart::new();
    let done = call(handle, count);
    // SAFETY: a handle of ours.
    unsafe { real::PMPI_T_cvar_handle_free(&mut handle) };
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(written: &Written, count: u64) -> Vec<(&[u8], u8)> {
        written
            .after(count)
            .map(|write| (&write.name[..], write.value[0]))
            .collect()
    }

    #[test]
    fn values_are_those_of_a_moment() {
        let mut written = Written::NONE;
        for (name, value, comms) in [(b"a", 1, &[0][..]), (b"b", 2, &[0, 1]), (b"a", 3, &[0, 1])] {
            written.note(name, 0, vec![value], comms);
        }
        assert_eq!(values(&written, 0), []);
        assert_eq!(values(&written, 1), [(&b"a"[..], 1)]);
        assert_eq!(values(&written, 2), [(&b"a"[..], 1), (b"b", 2)]);
        assert_eq!(values(&written, u64::MAX), [(&b"b"[..], 2), (b"a", 3)]);
    }

    #[test]
    fn only_what_a_communicator_was_made_after_is_kept() {
        let mut written = Written::NONE;
        for value in 0..100 {
            // Made after the tenth write, and after none.
            written.note(
                b"a",
                0,
                vec![value],
                if value < 10 { &[0] } else { &[0, 10] },
            );
        }
        let kept: Vec<u64> = written.writes.iter().map(|write| write.number).collect();
        assert_eq!(kept, [10, 100]);
        assert_eq!(values(&written, 10), [(&b"a"[..], 9)]);
        // It is freed.
        written.note(b"a", 0, vec![1], &[0]);
        assert_eq!(values(&written, u64::MAX), [(&b"a"[..], 1)]);
        assert_eq!(written.writes.len(), 1);
        // Another variable, and the same of another object.
        written.note(b"a", 7, vec![2], &[]);
        written.note(b"b", 0, vec![3], &[]);
        assert_eq!(written.writes.len(), 3);
    }
}
