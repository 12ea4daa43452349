//! Recipes of open files.

use crate::handles::VirtComm;
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Access modes of a file (`MPI_MODE_…`), which are equal in all ABIs.
pub mod mode {
    pub const CREATE: i32 = 1;
    pub const RDONLY: i32 = 2;
    pub const WRONLY: i32 = 4;
    pub const RDWR: i32 = 8;
    pub const DELETE_ON_CLOSE: i32 = 16;
    pub const EXCL: i32 = 64;
    pub const APPEND: i32 = 128;
    pub const SEQUENTIAL: i32 = 256;
}

/// Representation of data in a file (14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Representation {
    /// Representation in memory; also `internal`.
    Native,
    /// Big-endian representation, with sizes of its own.
    External32,
}

/// Part of a file that a process sees (14.3).
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct View {
    /// Bytes before the first tile.
    pub displacement: u64,
    /// Program's handle of the unit of access.
    pub etype: u64,
    /// Size of the unit in bytes of data.
    pub unit: u64,
    /// Program's handle of the tile.
    pub filetype: u64,
    /// Representation of the data.
    pub representation: Representation,
}

/// Kind of a split collective (14.4.5) that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Split {
    ReadAt,
    WriteAt,
    Read,
    Write,
    ReadOrdered,
    WriteOrdered,
}

#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct File {
    /// Full name of the file at the last cut, or when it was opened.
    pub path: Vec<u8>,
    pub mode: i32,
    /// Communicator that only this file uses, of the processes that have opened the file.
    pub comm: u64,
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
    /// Program's handle of the error handler; zero for the default.
    pub errhandler: u64,
    /// Part of the file that this process sees.
    pub view: View,
    /// True if accesses are atomic.
    pub atomic: bool,
    /// Individual pointer, in units of the view.
    pub position: u64,
    /// Position of the shared pointer until its file exists.
    pub shared_start: u64,
    /// Full name of the shared pointer's file; empty if it cannot exist.
    ///
    /// The file exists once the pointer has been moved.
    pub shared_path: Vec<u8>,
    /// Position of the shared pointer at the cut.
    pub pointer: Pointer,
    /// Split collective that is in progress, with its number of bytes.
    pub split: Option<(Split, u64)>,
}

impl File {
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Returns the name of the shared pointer's file.
    pub fn shared_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.shared_path))
    }

    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }
}

/// Shared pointer in the saved state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Pointer {
    /// Another worker's state contains the pointer.
    #[default]
    Others,
    /// The pointer has not been moved since the start.
    Unmoved,
    /// The pointer is at this unit.
    At(u64),
}
