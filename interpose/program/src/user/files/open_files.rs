//! Descriptors of the program side at a cut.
//!
//! Between cuts, only those descriptors are recorded that the program has not opened itself.

use super::file_locks::FileLock;
use super::inherited::{self, Inherited};
use super::open_file::OpenFile;
use super::special::Special;
use super::streams::{self, Stream};
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Weak;

/// Data about open files that this process needs between cuts.
pub struct OpenFileState {
    /// Descriptors inherited from the launcher.
    ///
    /// A replacement keeps the descriptors that it has inherited itself.
    pub inherited: StateCell<Vec<Inherited>>,
    /// Files that understudy has opened for the program (MPI files).
    pub of_runtime: StateCell<Vec<Weak<File>>>,
    /// True once the user was warned of a nameless file that is too long.
    pub has_warned: Cell<bool>,
    /// Open files, recorded while all processes were stopped.
    pub at_cut: StateCell<Option<OpenFilesAtCut>>,
    /// Locks at the cut to which the job has rolled back.
    pub locks: StateCell<BTreeMap<i32, Vec<FileLock>>>,
}

impl OpenFileState {
    /// State at the start of the process.
    pub const fn new() -> OpenFileState {
        OpenFileState {
            inherited: StateCell::new(Vec::new()),
            of_runtime: StateCell::new(Vec::new()),
            has_warned: Cell::new(false),
            at_cut: StateCell::new(None),
            locks: StateCell::new(BTreeMap::new()),
        }
    }

    /// True if the descriptor still refers to an object inherited from the launcher.
    pub fn is_inherited(&self, fd: i32) -> bool {
        inherited::is_inherited(&self.inherited.borrow(), fd)
    }

    /// True if the descriptor may be the program's.
    ///
    /// False for the standard descriptors that the launcher has opened, and for pipes at standard
    /// input, which [`crate::user::input`] restores. True for all higher descriptors, inherited or
    /// not.
    pub fn is_programs(&self, fd: i32, file_stat: &libc::stat) -> bool {
        let is_pipe = file_stat.st_mode & libc::S_IFMT == libc::S_IFIFO;
        fd > libc::STDERR_FILENO || streams::was_stream(fd) || !is_pipe && !self.is_inherited(fd)
    }
}

/// All open files of the program side, by descriptor.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct OpenFilesAtCut {
    pub files: BTreeMap<i32, OpenFile>,
    /// Descriptors of the program's output.
    pub streams: BTreeMap<i32, Stream>,
    /// Locks on files, directories and devices.
    pub locks: BTreeMap<i32, Vec<FileLock>>,
    /// Standard descriptors that are closed.
    pub closed: Vec<i32>,
    /// The kernel's names of pipes, sockets and similar objects that the program has created.
    pub others: BTreeMap<i32, Vec<u8>>,
    /// Pipes, sockets and similar objects that can be created anew.
    pub specials: BTreeMap<i32, Special>,
}
