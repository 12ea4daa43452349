//! Descriptors of the program side: at a cut, and not opened by the program.

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
    /// Descriptors inherited from the launcher: a replacement has its own.
    pub inherited: Field<Vec<Inherited>>,
    /// Files that understudy has opened for the program (MPI files).
    pub of_layer: Field<Vec<Weak<File>>>,
    /// True once the user was warned of a too long file without a name.
    pub has_warned: Cell<bool>,
    /// Open files, recorded while all processes were stopped.
    pub at_cut: Field<Option<Saved>>,
    /// Locks at the cut to which the job has rolled back.
    pub locks: Field<BTreeMap<i32, Vec<Lock>>>,
}

impl Others {
    /// State at the start of the process.
    pub const fn new() -> Others {
        Others {
            inherited: Field::new(Vec::new()),
            of_layer: Field::new(Vec::new()),
            has_warned: Cell::new(false),
            at_cut: Field::new(None),
            locks: Field::new(BTreeMap::new()),
        }
    }

    /// True for a descriptor inherited from the launcher.
    pub fn was_inherited(&self, fd: i32) -> bool {
        inherited::is_launchers(&self.inherited.borrow(), fd)
    }

    /// True if the program, not its launcher, has opened the descriptor.
    ///
    /// Pipes of standard input are excluded: [`crate::user::input`] restores them.
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
    /// The kernel's names of pipes, sockets and similar objects that the program has created.
    pub others: BTreeMap<i32, Vec<u8>>,
    /// Pipes, sockets and similar objects that can be created anew.
    pub specials: BTreeMap<i32, Special>,
}
