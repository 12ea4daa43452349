//! A file or directory that a dead job has left.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use understudy_formats::private_directories::PrivateDirectory;

/// Leftovers of one kind in a directory.
pub struct LeftoverNames {
    pub directory: PrivateDirectory,
    pub names: Vec<OsString>,
    /// Description for the user, such as "of a job that has ended".
    pub kind: &'static str,
}

/// A file or directory that can be removed, and its kind.
#[derive(Debug)]
pub struct Leftover {
    directory: Arc<PrivateDirectory>,
    name: OsString,
    /// Description for the user, as in [`LeftoverNames`].
    pub kind: &'static str,
}

impl Leftover {
    /// Returns the leftovers of one kind in a directory.
    pub fn all(leftovers: LeftoverNames) -> Vec<Leftover> {
        let LeftoverNames {
            directory,
            names,
            kind,
        } = leftovers;
        let directory = Arc::new(directory);
        let leftover = |name| Leftover {
            directory: Arc::clone(&directory),
            name,
            kind,
        };
        names.into_iter().map(leftover).collect()
    }

    /// Returns the path at which the leftover was found.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Removes the leftover from the directory in which it was found.
    ///
    /// The directory is open, so that a changed path does not matter. Another process may have
    /// removed the leftover meanwhile.
    ///
    /// # Errors
    /// Errors of [`PrivateDirectory::remove_all`].
    pub fn remove(&self) -> io::Result<()> {
        self.directory.remove_all(&self.name)
    }
}
