//! Effects that the undo log records.

use super::file_id::{FileId, InodeAttributes};
use crate::user::files::former_name::is_backup;
use std::path::{Path, PathBuf};

/// Effect, with the data needed to undo it. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Effect {
    /// A name is created.
    Created { path: PathBuf },
    /// The file may grow.
    Grown {
        path: PathBuf,
        id: FileId,
        size: u64,
    },
    /// Bytes of the file may change.
    ///
    /// `backup` is a copy of the file, complete once it has `size` bytes.
    Changed {
        path: PathBuf,
        id: FileId,
        size: u64,
        backup: PathBuf,
    },
    /// Ranges of the file are overwritten.
    ///
    /// The old bytes are in `bytes`, one range after the other, or in `backup` from `backup_offset`
    /// on. One backup may contain the bytes of several records.
    Overwritten {
        path: PathBuf,
        id: FileId,
        /// Offset and length of each range.
        ranges: Vec<(u64, u64)>,
        bytes: Vec<u8>,
        backup: Option<PathBuf>,
        backup_offset: u64,
    },
    /// The name is removed.
    ///
    /// The file keeps the name `backup`, or `backup` is a copy of the file.
    Removed {
        path: PathBuf,
        id: FileId,
        backup: PathBuf,
    },
    /// A directory is removed.
    RemovedDirectory {
        path: PathBuf,
        id: FileId,
        mode: u32,
    },
    /// The file is renamed.
    Renamed {
        from: PathBuf,
        to: PathBuf,
        id: FileId,
        directory: bool,
    },
    /// Two files exchange their names; `id` was at `from`.
    Exchanged {
        from: PathBuf,
        to: PathBuf,
        id: FileId,
    },
    /// Mode, owner and times may change.
    Attributes {
        path: PathBuf,
        id: FileId,
        attributes: InodeAttributes,
    },
    /// An extended attribute may change.
    Extended {
        path: PathBuf,
        id: FileId,
        name: Vec<u8>,
        value: Option<Vec<u8>>,
    },
    /// A System V object is created ([`understudy_abi::system_v`]).
    Object {
        kind: i64,
        identifier: i32,
        namespace: u64,
    },
    /// The name of a POSIX message queue is created.
    Queue {
        name: Vec<u8>,
        inode: u64,
        namespace: u64,
    },
}

impl Effect {
    /// Returns the backup of this effect, unless earlier effects also use this backup.
    pub fn backup(&self) -> Option<&Path> {
        match self {
            Effect::Changed { backup, .. } | Effect::Removed { backup, .. } => Some(backup),
            Effect::Overwritten {
                backup,
                backup_offset: 0,
                ..
            } => backup.as_deref(),
            // The effect has moved a backup.
            Effect::Renamed { to, .. } if is_backup(to) => Some(to),
            _ => None,
        }
    }
}

impl Effect {
    /// Returns the names that the effect concerns, the backup last.
    pub fn paths(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Effect::Created { path }
            | Effect::Grown { path, .. }
            | Effect::Attributes { path, .. }
            | Effect::Extended { path, .. }
            | Effect::RemovedDirectory { path, .. } => vec![path],
            Effect::Changed { path, backup, .. } | Effect::Removed { path, backup, .. } => {
                vec![path, backup]
            }
            Effect::Overwritten { path, backup, .. } => {
                std::iter::once(path).chain(backup.as_mut()).collect()
            }
            Effect::Renamed { from, to, .. } | Effect::Exchanged { from, to, .. } => {
                vec![from, to]
            }
            Effect::Object { .. } | Effect::Queue { .. } => Vec::new(),
        }
    }

    /// Returns the name that the effect creates: a new name or a backup.
    pub fn created_name(&self) -> Option<&Path> {
        match self {
            Effect::Created { path } => Some(path),
            Effect::Changed { backup, .. } | Effect::Removed { backup, .. } => Some(backup),
            Effect::Overwritten { backup, .. } => backup.as_deref(),
            _ => None,
        }
    }

    /// Updates the number of the device, which a reboot or another node may have changed.
    pub fn renumber_device(&mut self) {
        let (path, id) = match self {
            Effect::Created { .. } | Effect::Object { .. } | Effect::Queue { .. } => return,
            Effect::Grown { path, id, .. }
            | Effect::Changed { path, id, .. }
            | Effect::Overwritten { path, id, .. }
            | Effect::Removed { path, id, .. }
            | Effect::Attributes { path, id, .. }
            | Effect::Extended { path, id, .. }
            | Effect::RemovedDirectory { path, id, .. } => (path, id),
            Effect::Renamed { to, id, .. } | Effect::Exchanged { to, id, .. } => (to, id),
        };
        if let Ok(metadata) = std::fs::symlink_metadata(path)
            && id.is_of(&metadata)
        {
            *id = FileId::from_metadata(&metadata);
        }
    }
}
