//! Backups of what an effect destroys.
#![allow(unsafe_code)]

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Copies up to this size are kept in memory.
const SMALL: u64 = 64 << 10;

/// Where the backups of a rank are, and how they are named.
pub struct Keeper {
    /// A directory in memory.
    pub memory: PathBuf,
    /// Hidden, and the same for all backups of the job.
    pub prefix: String,
    /// Launcher rank.
    pub rank: u32,
    count: u64,
}

impl Keeper {
    /// For the rank of a job.
    pub fn new(memory: &Path, job: &str, rank: u32) -> Keeper {
        Keeper {
            memory: memory.to_owned(),
            prefix: format!(".understudy-{job}-"),
            rank,
            count: 0,
        }
    }

    /// Calls `make` with a name that is free.
    pub fn with_name<T>(
        &mut self,
        directory: &Path,
        make: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<(PathBuf, T)> {
        loop {
            self.count += 1;
            let path = directory.join(format!("{}{}-{}", self.prefix, self.rank, self.count));
            match make(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other.map(|made| (path, made)),
            }
        }
    }

    /// Keeps a file whose name is about to go, under another name.
    pub fn link(&mut self, path: &Path, metadata: &Metadata) -> io::Result<PathBuf> {
        let directory = path.parent().unwrap_or(path).to_owned();
        match self.with_name(&directory, |name| std::fs::hard_link(path, name)) {
            Ok((name, ())) => Ok(name),
            Err(_) if metadata.is_symlink() => {
                let target = std::fs::read_link(path)?;
                self.with_name(&directory, |name| symlink(&target, name))
                    .map(|made| made.0)
            }
            Err(_) if metadata.is_file() => {
                let copy = self.copy_to(&directory, path)?;
                std::fs::set_permissions(&copy, metadata.permissions())?;
                Ok(copy)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps a copy of a file's content.
    pub fn copy(&mut self, path: &Path, metadata: &Metadata) -> io::Result<PathBuf> {
        let memory = self.memory.clone();
        let directory = path.parent().unwrap_or(path);
        if metadata.size() <= SMALL
            && let Ok(copy) = self.copy_to(&memory, path)
        {
            return Ok(copy);
        }
        self.copy_to(directory, path)
    }

    fn copy_to(&mut self, directory: &Path, path: &Path) -> io::Result<PathBuf> {
        let from = File::open(path)?;
        let create = |name: &Path| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(name)
        };
        let (name, to) = self.with_name(directory, create)?;
        let done = clone_or_copy(&from, &to);
        if done.is_err() {
            let _ = std::fs::remove_file(&name);
        }
        done.map(|()| name)
    }
}

/// Fills an empty file with another one's content.
pub fn clone_or_copy(mut from: &File, mut to: &File) -> io::Result<()> {
    // SAFETY: ioctl_ficlone(2) on two files of ours.
    if unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) } == 0 {
        return Ok(());
    }
    io::copy(&mut from, &mut to).map(drop)
}
