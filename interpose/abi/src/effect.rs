//! Effects on files and loaded libraries, which the face reports before they happen.

use core::ffi::{c_char, c_int};

/// Function of an effect.
///
/// The arguments are the kind; the descriptor of a directory (or AT_FDCWD) and a name relative to
/// it; a second descriptor and name; and a value that depends on the kind.
pub type Hook = unsafe extern "C" fn(u32, c_int, *const c_char, c_int, *const c_char, i64);

/// Opening of a file; the value is open(2)'s flags.
pub const OPEN: u32 = 1;
/// Change of the name into the second one; the value is renameat2(2)'s flags.
pub const RENAME: u32 = 2;
/// Removal of the name; the value is [`FILES`], [`DIRECTORIES`] or both.
pub const REMOVE: u32 = 3;
/// Creation of the name; the value is as for [`REMOVE`].
pub const CREATE: u32 = 4;
/// Change of the file's size to the value.
pub const TRUNCATE: u32 = 5;
/// Change of an open file's size; the directory's descriptor is the file's.
pub const FTRUNCATE: u32 = 6;
/// dlopen(3) of the name; the value is its flags.
pub const OPEN_LIBRARY: u32 = 7;
/// dlclose(3); the value is the handle.
pub const CLOSE_LIBRARY: u32 = 8;
/// Overwriting of a part of an open file.
///
/// The directory's descriptor is the file's, the value the address of a [`Part`].
pub const OVERWRITE: u32 = 9;
/// Overwriting of a part of an open file by way of a mapping.
pub const MAP: u32 = 10;

/// Change of an attribute of the inode.
///
/// The second name is that of an extended attribute. Without a first name, the directory's
/// descriptor is the file's. The value is 0 or [`NO_FOLLOW`].
pub const ATTRIBUTE: u32 = 11;
/// Value for a symbolic link itself, not its target.
pub const NO_FOLLOW: i64 = 1;
/// Return of the calling thread's last call that was to make a name.
pub const MADE: u32 = 12;
/// Creation of a System V object, which is complete.
///
/// The directory's descriptor is its identifier, and the value is its kind
/// ([`crate::system_v`]).
pub const OBJECT: u32 = 13;
/// Execution by a child of a program without the preload library; the name is the program's.
pub const UNSEEN_PROGRAM: u32 = 14;
/// Creation of a POSIX message queue of this name, which is complete.
///
/// The directory's descriptor is that of the queue.
pub const QUEUE: u32 = 15;

/// A part of a file, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub offset: u64,
    pub length: u64,
}

/// Names of anything but a directory.
pub const FILES: i64 = 1;
/// Names of directories.
pub const DIRECTORIES: i64 = 2;
