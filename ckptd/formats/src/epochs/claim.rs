//! Claim of a directory of checkpoints: one job at a time owns it.
//!
//! ```text
//!  newest owner file      none, or its owner has ended ──► write a file under a unique name, and
//!   of the directory      this job's ──► lock it            link(2) it to the next term's name
//!                         locked under this kernel ──► refused
//!                         unknown ──► watch its counter: it changes ──► refused
//!                                                        it does not ──► as if it had ended
//! ```
//!
//! Each process of a job has a shared lock (fcntl(2), POSIX record locks) on the job's file, which
//! the kernel releases when the process exits. On another host the locks prove nothing; there the
//! counter decides (`heartbeat`).
//!
//! The link decides between two claims at one time, on all file systems: it never replaces a file,
//! and if the reply of a server is lost, the number of links of the unique file shows the outcome.
//! The new owner removes the file of the former one, which may be slow instead of dead. A slow
//! owner therefore looks whether its file is in its place before it changes anything
//! ([`OwnerFile::is_in_place`]).

use super::epoch_files::{EpochFileName, PARTIAL_SUFFIX};
use super::owner::{
    DirectoryOwner, LifeSign, NO_CHECKPOINT, OWNER_PREFIX, TermLimit, name_of, term_of,
};
use crate::private_directories::{open_own, read_own};
use rustix::fs::{AtFlags, CWD, FlockOperation, RenameFlags, StatxFlags, fcntl_lock};
use rustix::fs::{renameat_with, statx};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;

/// Time for which processes of a killed job may keep their locks.
const RELEASE_TIME: Duration = Duration::from_secs(1);
/// Interval between two attempts to claim.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Number of attempts to read an owner file that other jobs exchange.
const ATTEMPTS: u32 = 100;
/// Number of times that a counter is read while it is watched.
const WATCH_STEPS: u32 = 35;

/// Claim of a directory by a process of a job.
#[derive(Debug)]
pub struct Claim<'a> {
    pub directory: &'a Path,
    /// Description of the job, without the term and the limits of a new owner file.
    pub own: DirectoryOwner,
    /// Term in the keys of the job's checkpoints, if it is known already.
    pub job_term: Option<u64>,
    /// Time for which the counter of an owner is watched.
    ///
    /// Zero if the claim is to be refused at once instead.
    pub patience: Duration,
    /// Function that is called before the counter of an owner is watched.
    pub announce: fn(&DirectoryOwner, Duration),
    /// Moves the file to a descriptor number that the program does not use.
    ///
    /// The file is moved before it is locked: a process loses its record locks on a file when it
    /// closes any descriptor of the file (fcntl_locking(2)).
    pub lift: fn(OwnedFd) -> File,
}

/// Owner file of this job, opened and locked (shared) by a process of the job.
///
/// A file system without locks leaves the file unlocked.
#[derive(Debug)]
pub struct Ownership {
    file: OwnerFile,
    owner: DirectoryOwner,
    _locked: File,
}

/// Path and identity of the owner file of this job.
#[derive(Clone, Debug)]
pub struct OwnerFile {
    path: PathBuf,
    inode: u64,
    /// Inode of the directory.
    directory: u64,
}

/// Failure to own a directory.
#[derive(Debug)]
pub enum ClaimError {
    /// Another job owns the directory, and may be running.
    Owned {
        owner: Box<DirectoryOwner>,
        /// Sign of life of that job.
        why: String,
    },
    System(io::Error),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Owned { owner, why } => {
                write!(to, "{}", message::directory_in_use(owner, why))
            }
            ClaimError::System(error) => {
                write!(to, "{}", message::owner_not_written(error))
            }
        }
    }
}

impl From<io::Error> for ClaimError {
    fn from(error: io::Error) -> ClaimError {
        ClaimError::System(error)
    }
}

/// Returns the owner of a directory.
///
/// `None` if the directory has no owner file, or a file that cannot be read.
pub fn owner_of(directory: &Path) -> Option<DirectoryOwner> {
    let (_, path) = newest(&names(directory).ok()?, directory)?;
    DirectoryOwner::parse(&String::from_utf8(read_own(&path).ok()?).ok()?)
}

/// True if a directory has an owner file, which may be unreadable.
pub fn has_owner_file(directory: &Path) -> bool {
    names(directory).is_ok_and(|names| newest(&names, directory).is_some())
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.into_iter();
    Ok(names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

fn newest(names: &[String], directory: &Path) -> Option<(u64, PathBuf)> {
    let term = names.iter().filter_map(|name| term_of(name)).max()?;
    Some((term, directory.join(name_of(term))))
}

/// File under a unique name, which is removed when the value is dropped.
struct Candidate(PathBuf);

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// State of the newest owner file.
enum Found {
    /// Owner file of this job.
    Own(Ownership),
    /// The directory can be claimed, with this predecessor.
    Free(Option<Box<DirectoryOwner>>),
    /// The file has been removed or replaced meanwhile.
    Changed,
}

impl Claim<'_> {
    /// Makes the job of this process the owner of the directory.
    ///
    /// Each process of the job calls this function. The job owns the directory until all of its
    /// processes have exited, or one of them calls [`Ownership::remove`], or another job has seen
    /// no beat for its patience.
    ///
    /// # Errors
    /// Fails with [`ClaimError::Owned`] if another job owns the directory, and with
    /// [`ClaimError::System`] if a file cannot be read or written.
    pub fn claim(mut self) -> Result<Ownership, ClaimError> {
        // Most processes find the file that another process of the job has made.
        if let Ok(names) = names(self.directory)
            && let Some((_, path)) = newest(&names, self.directory)
            && let Some(ownership) = self.join(&path, &read_own(&path)?)?
        {
            return Ok(ownership);
        }
        for _ in 0..ATTEMPTS {
            // A client of NFS lists a directory anew after it has created a file there.
            let (file, candidate) = self.create()?;
            let names = names(self.directory)?;
            let predecessor = match self.examine(&names)? {
                Found::Own(ownership) => return Ok(ownership),
                Found::Free(predecessor) => predecessor,
                Found::Changed => {
                    std::thread::sleep(RETRY_INTERVAL);
                    continue;
                }
            };
            if let Some(ownership) = self.take(predecessor, &names, file, &candidate)? {
                return Ok(ownership);
            }
            // The winner has just written its file: it lives.
            self.patience = Duration::ZERO;
        }
        Err(io::Error::from(ErrorKind::TimedOut).into())
    }

    /// Creates and locks a file under a unique name.
    fn create(&self) -> io::Result<(File, Candidate)> {
        let nonce = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let name = format!("{OWNER_PREFIX}{}{PARTIAL_SUFFIX}", nonce.trim());
        let path = self.directory.join(name);
        let file = open_own(&path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        let (file, candidate) = ((self.lift)(file.into()), Candidate(path));
        // A file system without locks leaves the file unlocked.
        let _ = fcntl_lock(&file, FlockOperation::NonBlockingLockShared);
        Ok((file, candidate))
    }

    /// Examines the newest owner file in a list of names.
    fn examine(&self, names: &[String]) -> Result<Found, ClaimError> {
        let Some((term, path)) = newest(names, self.directory) else {
            return Ok(Found::Free(None));
        };
        let until = Instant::now() + RELEASE_TIME.min(self.patience);
        loop {
            let bytes = read_own(&path)?;
            if let Some(ownership) = self.join(&path, &bytes)? {
                return Ok(Found::Own(ownership));
            }
            let mut owner = Box::new(parse(&bytes).unwrap_or_default());
            owner.term = term;
            let is_locked = match open_own(&path, libc::O_RDWR) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Changed),
                file => fcntl_getlk(&file?, &Flock::from(FlockType::WriteLock)),
            };
            match owner.life_sign(&self.own, is_locked.ok().map(|lock| lock.is_some())) {
                LifeSign::Ended => return Ok(Found::Free(Some(owner))),
                LifeSign::Unknown => return self.watch(owner, &path, &bytes),
                LifeSign::Locked if Instant::now() < until => std::thread::sleep(RETRY_INTERVAL),
                LifeSign::Locked => {
                    let why = "its processes have locked the owner file".into();
                    return Err(ClaimError::Owned { owner, why });
                }
            }
        }
    }

    /// Watches the counter of an owner that may run on another host.
    fn watch(
        &self,
        owner: Box<DirectoryOwner>,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Found, ClaimError> {
        if self.patience.is_zero() {
            let why = "it may run on a host that cannot be seen from here".into();
            return Err(ClaimError::Owned { owner, why });
        }
        (self.announce)(&owner, self.patience);
        let (began, mut last) = (Instant::now(), Instant::now());
        while began.elapsed() < self.patience {
            std::thread::sleep(self.patience / WATCH_STEPS);
            // Both hosts may have been suspended, with the owner.
            if last.elapsed() > self.patience / 2 {
                return Ok(Found::Changed);
            }
            last = Instant::now();
            let now = read_own(path)?;
            if now.is_empty() {
                return Ok(Found::Changed);
            }
            if now != bytes {
                let seconds = began.elapsed().as_secs();
                let why = format!("it has rewritten the owner file within {seconds} s");
                return Err(ClaimError::Owned { owner, why });
            }
        }
        Ok(Found::Free(Some(owner)))
    }

    /// Opens and locks an owner file, if it is this job's.
    fn join(&self, path: &Path, bytes: &[u8]) -> io::Result<Option<Ownership>> {
        let Some(owner) = parse(bytes).filter(|owner| owner.nonce == self.own.nonce) else {
            return Ok(None);
        };
        let file = match open_own(path, libc::O_RDWR) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => (self.lift)(file?.into()),
        };
        let _ = fcntl_lock(&file, FlockOperation::NonBlockingLockShared);
        let ownership = Ownership::new(path, owner, file)?;
        Ok(ownership.file.is_in_place()?.then_some(ownership))
    }

    /// Writes the file of the next term; `None` if another claim was faster.
    fn take(
        &self,
        predecessor: Option<Box<DirectoryOwner>>,
        names: &[String],
        mut file: File,
        candidate: &Candidate,
    ) -> io::Result<Option<Ownership>> {
        let predecessor = predecessor.unwrap_or_default();
        let term = predecessor.term + 1;
        let mut limits = predecessor.limits;
        let keys = names.iter().filter_map(|name| EpochFileName::parse(name));
        limits.push(TermLimit {
            term: self.job_term.unwrap_or(term),
            newest: keys.map(|name| name.key).max().unwrap_or(NO_CHECKPOINT),
        });
        let owner = DirectoryOwner {
            term,
            limits,
            ..self.own.clone()
        };
        file.write_all(owner.text().as_bytes())?;
        file.sync_all()?;
        let path = self.directory.join(name_of(term));
        if !link(&candidate.0, &path, &file)? {
            return Ok(None);
        }
        let former = names
            .iter()
            .filter(|name| name.starts_with(OWNER_PREFIX) && term_of(name) != Some(term));
        for name in former {
            let _ = fs::remove_file(self.directory.join(name));
        }
        // The claim is valid without, as long as the server runs.
        let _ = File::open(self.directory).and_then(|directory| directory.sync_all());
        Ok(Some(Ownership::new(&path, owner, file)?))
    }
}

fn parse(bytes: &[u8]) -> Option<DirectoryOwner> {
    DirectoryOwner::parse(std::str::from_utf8(bytes).ok()?)
}

/// Gives a file under a unique name a second name, which no other file has.
///
/// Returns false if another file has the name.
fn link(unique: &Path, path: &Path, file: &File) -> io::Result<bool> {
    let Err(error) = fs::hard_link(unique, path) else {
        return Ok(true);
    };
    // The reply of a server may be lost, and a repeated request fails.
    if file.metadata()?.nlink() == 2 {
        return Ok(true);
    }
    match Errno::from_io_error(&error) {
        // The winner of the other claim may have removed the unique file.
        Some(Errno::EXIST | Errno::NOENT) => Ok(false),
        // The file system has no hard links.
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            match renameat_with(CWD, unique, CWD, path, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => Ok(false),
                renamed => Ok(renamed.map(|()| true)?),
            }
        }
        _ => Err(error),
    }
}

impl Ownership {
    fn new(path: &Path, owner: DirectoryOwner, file: File) -> io::Result<Ownership> {
        let directory = fs::metadata(path.parent().unwrap_or(path))?.ino();
        let (path, inode) = (path.to_owned(), file.metadata()?.ino());
        Ok(Ownership {
            file: OwnerFile {
                path,
                inode,
                directory,
            },
            owner,
            _locked: file,
        })
    }

    pub fn file(&self) -> &OwnerFile {
        &self.file
    }

    /// Returns the description of this job, which has been written by one of its processes.
    pub fn owner(&self) -> &DirectoryOwner {
        &self.owner
    }

    /// Removes the owner file, by which the job releases the directory.
    ///
    /// Called after a successful end of the job.
    pub fn remove(self) {
        if self.file.is_in_place().is_ok_and(|is_in_place| is_in_place) {
            let _ = fs::remove_file(&self.file.path);
        }
    }
}

impl OwnerFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this job still owns the directory.
    ///
    /// False if another job has taken over the directory.
    ///
    /// The server is asked, even if its client has the answer in a cache. The file is not opened,
    /// since closing it would release the locks of this process.
    ///
    /// # Errors
    /// Fails if the directory has gone, and with errors of statx(2).
    pub fn is_in_place(&self) -> io::Result<bool> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        match statx(CWD, &self.path, flags, StatxFlags::INO) {
            Ok(about) => Ok(about.stx_ino == self.inode),
            Err(Errno::NOENT) => {
                let directory = fs::metadata(self.path.parent().unwrap_or(&self.path))?;
                match directory.ino() == self.directory {
                    true => Ok(false),
                    false => Err(ErrorKind::NotFound.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
