//! Recipes of open files.

use crate::handles::VirtComm;
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Access modes of a file (`MPI_MODE_…`), with Open MPI's values.
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
    /// Big-endian representation, with the sizes that the standard defines.
    External32,
}

/// Part of a file that a process sees (14.3).
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct FileView {
    /// Offset in bytes of the first repetition of the filetype.
    pub displacement: u64,
    /// Program's handle of the etype.
    pub etype: u64,
    /// Size of the etype in bytes: the unit of pointers and offsets.
    pub unit: u64,
    /// Program's handle of the filetype.
    pub filetype: u64,
    /// Representation of the data.
    pub representation: Representation,
}

/// Kind of a split collective (14.4.5) that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum SplitCollective {
    ReadAt,
    WriteAt,
    Read,
    Write,
    ReadOrdered,
    WriteOrdered,
}

#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct OpenFile {
    /// Full name of the file at the last cut, or when it was opened.
    pub path: Vec<u8>,
    pub mode: i32,
    /// Communicator of the processes that have opened the file, which only this file uses.
    pub comm: u64,
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
    /// Program's handle of the error handler; zero for the default.
    pub errhandler: u64,
    /// Part of the file that this process sees.
    pub view: FileView,
    /// True if accesses are atomic.
    pub atomic: bool,
    /// Individual file pointer, in units of the view.
    pub position: u64,
    /// Position of the shared file pointer until the hidden file exists.
    pub shared_start: u64,
    /// Full name of the [hidden file](super::shared_pointer) that contains the shared pointer.
    ///
    /// Empty if no such file can be created. The file exists once the pointer has been moved.
    pub shared_path: Vec<u8>,
    /// State of the shared pointer at the last cut.
    pub pointer: SharedPointer,
    /// Split collective that is in progress, with its number of bytes.
    pub split: Option<(SplitCollective, u64)>,
}

impl OpenFile {
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Returns the name of the hidden file with the shared pointer.
    pub fn shared_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.shared_path))
    }

    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }
}

/// Shared pointer in the saved state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum SharedPointer {
    /// Another worker's state contains the pointer, or no hidden file can be created.
    #[default]
    InOtherWorker,
    /// The pointer has not been moved, and has no hidden file.
    Unmoved,
    /// The pointer is at this unit.
    At(u64),
}
