//! Identities of files, and attributes of inodes.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::UNIX_EPOCH;
use understudy_catalogue::message;

/// Identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bincode::Encode, bincode::Decode)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
    /// Time of birth in nanoseconds since 1970 (statx(2)); zero if unknown.
    ///
    /// The time distinguishes files, because file systems reuse the inode of a removed file.
    pub born: u64,
}

impl FileId {
    /// Identity that no file has.
    pub const UNKNOWN: FileId = FileId {
        device: 0,
        inode: 0,
        born: 0,
    };

    /// Returns the identity of the file that `metadata` describes.
    pub fn from_metadata(metadata: &std::fs::Metadata) -> FileId {
        let born = metadata.created().ok();
        let since = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: since.map_or(0, |since| since.as_nanos() as u64),
        }
    }

    /// True if `metadata` describes this file, independently of its device's number.
    pub fn is_of(&self, metadata: &std::fs::Metadata) -> bool {
        let found = FileId::from_metadata(metadata);
        let is_unlike = self.born != found.born && self.born != 0 && found.born != 0;
        found.inode == self.inode && !is_unlike
    }
}

/// Mode, owner and times of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct InodeAttributes {
    /// Permissions, including bits such as set-user-ID.
    pub mode: u32,
    pub owner: u32,
    pub group: u32,
    /// Seconds and nanoseconds of the last access and the last modification.
    pub times: [(i64, i64); 2],
}

impl InodeAttributes {
    /// Returns the attributes of a file.
    pub fn from_metadata(metadata: &std::fs::Metadata) -> InodeAttributes {
        InodeAttributes {
            mode: metadata.permissions().mode() & 0o7777,
            owner: metadata.uid(),
            group: metadata.gid(),
            times: [
                (metadata.atime(), metadata.atime_nsec()),
                (metadata.mtime(), metadata.mtime_nsec()),
            ],
        }
    }
}

/// Returns the error for a name that now leads to another file.
pub fn another_file() -> io::Error {
    io::Error::other(message::OTHER_FILE)
}
