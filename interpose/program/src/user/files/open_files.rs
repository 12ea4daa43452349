//! Descriptors of the program side: those of a cut, and those that the program has not opened.

use super::held::Lock;
use super::inherited::{self, Inherited};
use super::open_file::Open;
use super::special::Special;
use super::streams::{self, Stream};
use crate::cell::Field;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Weak;

/// Open files that the program has not opened, and the state of the last cut.
pub struct Others {
    /// Descriptors that the launcher has left open: a replacement has its own.
    pub inherited: Field<Vec<Inherited>>,
    /// Files that understudy has open for the program (MPI's files).
    pub of_layer: Field<Vec<Weak<File>>>,
    /// True once a warning of a file without a name that is too long was printed.
    pub has_warned: Cell<bool>,
    /// Files that were open when all processes stood still.
    pub at_cut: Field<Option<Saved>>,
    /// Locks of the cut to which the job has rolled back.
    pub locks: Field<BTreeMap<i32, Vec<Lock>>>,
}

impl Others {
    /// At the start of the process.
    pub const fn new() -> Others {
        Others {
            inherited: Field::new(Vec::new()),
            of_layer: Field::new(Vec::new()),
            has_warned: Cell::new(false),
            at_cut: Field::new(None),
            locks: Field::new(BTreeMap::new()),
        }
    }

    /// True for a descriptor of the launcher.
    pub fn was_inherited(&self, fd: i32) -> bool {
        inherited::is_launchers(&self.inherited.borrow(), fd)
    }

    /// True if the program has opened the descriptor, and not its launcher.
    ///
    /// Pipes of standard input are restored by [`crate::user::input`].
    pub fn is_programs(&self, fd: i32, about: &libc::stat) -> bool {
        let is_pipe = about.st_mode & libc::S_IFMT == libc::S_IFIFO;
        fd > libc::STDERR_FILENO || streams::was_one(fd) || !is_pipe && !self.was_inherited(fd)
    }
}

/// All open files of the program side, by descriptor.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Saved {
    pub files: BTreeMap<i32, Open>,
    /// Descriptors of the program's output.
    pub streams: BTreeMap<i32, Stream>,
    /// Locks on files, directories and devices.
    pub locks: BTreeMap<i32, Vec<Lock>>,
    /// Standard descriptors that are closed.
    pub closed: Vec<i32>,
    /// Kernel's names of pipes, sockets and the like that the program has made.
    pub others: BTreeMap<i32, Vec<u8>>,
    /// Pipes, sockets and the like that can be made anew.
    pub specials: BTreeMap<i32, Special>,
}
