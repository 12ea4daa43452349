//! Effects on files and loaded libraries, which the preload library reports to the runtime.
//!
//! An effect is reported before it happens, unless its kind states otherwise.

use core::ffi::{c_char, c_int};

/// Function that the preload library calls to report an effect.
///
/// The arguments are the kind; a directory's descriptor (or AT_FDCWD) and a name relative to that
/// directory; a second descriptor and name; and a value that depends on the kind.
pub type Hook = unsafe extern "C" fn(u32, c_int, *const c_char, c_int, *const c_char, i64);

/// Opening of a file; the value is open(2)'s flags.
pub const OPEN: u32 = 1;
/// Renaming of the first name to the second; the value is renameat2(2)'s flags.
pub const RENAME: u32 = 2;
/// Removal of a name; the value is [`NON_DIRECTORIES`], [`DIRECTORIES`] or both.
pub const REMOVE: u32 = 3;
/// Creation of a name; the value consists of the flags that [`REMOVE`] uses.
pub const CREATE: u32 = 4;
/// Change of the file's size to the value.
pub const TRUNCATE: u32 = 5;
/// Change of an open file's size; the file's descriptor is in place of the directory's.
pub const FTRUNCATE: u32 = 6;
/// dlopen(3) of a library; the value is dlopen's flags.
pub const OPEN_LIBRARY: u32 = 7;
/// dlclose(3); the value is the handle.
pub const CLOSE_LIBRARY: u32 = 8;
/// Overwriting of a part of an open file.
///
/// The file's descriptor is in place of the directory's. The value is the address of a
/// [`FilePart`]; 0, in the report of a child, stands for the whole file.
pub const OVERWRITE: u32 = 9;
/// Overwriting of a part of an open file through a mapping.
///
/// The arguments are those of [`OVERWRITE`].
pub const OVERWRITE_BY_MAPPING: u32 = 10;

/// Change of an attribute of an inode.
///
/// The second name is that of an extended attribute. Without a first name, the file's descriptor is
/// in place of the directory's. The value is 0 or [`NO_FOLLOW`].
pub const ATTRIBUTE: u32 = 11;
/// Value of [`ATTRIBUTE`] if a symbolic link itself is changed instead of its target.
pub const NO_FOLLOW: i64 = 1;
/// Return of the calling thread's last call that could create a name.
pub const NAME_CREATED: u32 = 12;
/// Creation of a System V object, reported after the call.
///
/// The object's identifier is in place of the directory's descriptor. The value is the object's
/// kind ([`crate::system_v`]).
pub const SYSTEM_V_OBJECT: u32 = 13;
/// Execution, by a child, of a program that does not load the preload library.
///
/// The first name is that of the program.
pub const UNSEEN_PROGRAM: u32 = 14;
/// Creation of a POSIX message queue of the given name, reported after the call.
///
/// The queue's descriptor is in place of the directory's.
pub const POSIX_QUEUE: u32 = 15;

/// A part of a file, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilePart {
    pub offset: u64,
    pub length: u64,
}

/// Flag of [`REMOVE`] and [`CREATE`]: names of files of all types except directories.
pub const NON_DIRECTORIES: i64 = 1;
/// Flag of [`REMOVE`] and [`CREATE`]: names of directories.
pub const DIRECTORIES: i64 = 2;
