//! Owner of a directory of checkpoints.
//!
//! Two running jobs in one directory would overwrite each other's files. So each process of a job
//! has a shared lock (fcntl(2), POSIX record locks) on the file [`OWNER`] in the directory, which
//! describes the job. Another job that claims the directory needs the exclusive lock. The kernel
//! releases the locks of a process that exits, so that the exclusive lock usually proves the end
//! of the owner. The lock proves nothing if the owner runs on another host, whose locks some file
//! systems hide: then the content of the file must show that the owner has ended
//! (`DirectoryOwner::has_ended`).

use crate::host::host_name;
use crate::proc_stat;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::io::Errno;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;

/// Name of the owner file.
pub const OWNER: &str = "understudy-owner";

/// Time limit for a claim: another process of this job may be writing the file.
const WRITE_TIME_LIMIT: Duration = Duration::from_secs(1);
/// Interval between two attempts to lock the file.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Description of a job, the content of the owner file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOwner {
    /// Name of the job, unique among jobs.
    pub job: String,
    pub host: String,
    /// `/proc/sys/kernel/random/boot_id` of that host.
    pub boot: String,
    /// Process that has written the file.
    pub pid: u32,
    /// Start of that process, in clock ticks since the boot of the host (proc(5), `stat`).
    pub start: u64,
    /// Number of jobs that have owned the directory, this one included.
    pub term: u64,
    /// Job id of the batch system; empty without a batch system.
    pub batch: String,
    /// Number of times that the batch system has restarted the job.
    pub restarts: u64,
}

impl fmt::Display for DirectoryOwner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "job {} (process {} on {})",
            self.job, self.pid, self.host
        )
    }
}

impl DirectoryOwner {
    /// Describes the job of this process, as a first owner.
    ///
    /// `job` is the name of the job; `variable` returns the value of an environment variable.
    pub fn current(job: &str, variable: impl Fn(&str) -> Option<String>) -> DirectoryOwner {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let parsed = |name| variable(name).and_then(|value| value.parse().ok());
        let pid = std::process::id();
        DirectoryOwner {
            job: job.into(),
            host: host_name(),
            boot: read("/proc/sys/kernel/random/boot_id").trim().into(),
            pid,
            start: proc_stat::number(pid, proc_stat::START).unwrap_or(0),
            term: 1,
            batch: variable("SLURM_JOB_ID").unwrap_or_default(),
            restarts: parsed("SLURM_RESTART_COUNT").unwrap_or(0),
        }
    }

    /// Parses the content of the file.
    ///
    /// `None` if the content is incomplete.
    fn parse(text: &str) -> Option<DirectoryOwner> {
        let text = text.strip_suffix("\nend\n")?;
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let mut owner = DirectoryOwner::default();
        for (name, value) in lines {
            match name {
                "job" => owner.job = value.into(),
                "host" => owner.host = value.into(),
                "boot" => owner.boot = value.into(),
                "pid" => owner.pid = value.parse().ok()?,
                "start" => owner.start = value.parse().ok()?,
                "term" => owner.term = value.parse().ok()?,
                "batch" => owner.batch = value.into(),
                "restarts" => owner.restarts = value.parse().ok()?,
                _ => {}
            }
        }
        Some(owner)
    }

    fn text(&self) -> String {
        let DirectoryOwner {
            job,
            host,
            boot,
            pid,
            start,
            term,
            batch,
            restarts,
        } = self;
        format!(
            "job {job}\nhost {host}\nboot {boot}\npid {pid}\nstart {start}\nterm {term}\n\
             batch {batch}\nrestarts {restarts}\nend\n"
        )
    }

    /// True if this owner has certainly ended.
    ///
    /// The caller has the exclusive lock, unless the file system has no locks (`sees_locks` is
    /// false). Any of three facts proves the end: the owner ran under this kernel and locks work,
    /// so that its locks would be visible; its host has been rebooted since; or the batch system
    /// has restarted the job.
    fn has_ended(&self, own: &DirectoryOwner, sees_locks: bool) -> bool {
        let is_same_kernel = self.boot == own.boot;
        let has_rebooted = self.host == own.host && !is_same_kernel;
        let is_earlier_start =
            !self.batch.is_empty() && self.batch == own.batch && self.restarts < own.restarts;
        is_same_kernel && sees_locks || has_rebooted || is_earlier_start
    }
}

/// Owner file, opened and locked (shared) by a process of the owner.
///
/// A file system without locks leaves the file unlocked.
#[derive(Debug)]
pub struct Ownership {
    file: File,
    path: PathBuf,
}

/// Failure to own a directory.
#[derive(Debug)]
pub enum ClaimError {
    /// Another job owns the directory, and may be running.
    Owned {
        /// `None` if the file is incomplete.
        owner: Option<Box<DirectoryOwner>>,
        path: PathBuf,
    },
    System(io::Error),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Owned { owner, path } => {
                let owner: &dyn fmt::Display = match owner {
                    Some(owner) => owner,
                    None => &"another job",
                };
                write!(to, "{}", message::directory_in_use(owner, path.display()))
            }
            ClaimError::System(error) => write!(to, "{}", message::owner_not_written(OWNER, error)),
        }
    }
}

impl From<io::Error> for ClaimError {
    fn from(error: io::Error) -> ClaimError {
        ClaimError::System(error)
    }
}

/// Makes the job of this process the owner of a directory.
///
/// Each process of the job calls this function. The job owns the directory until all of its
/// processes have exited, or one of them calls [`Ownership::remove`]. In a rank, `lift` moves the
/// file to a descriptor number that the program does not use. The file is moved before it is
/// locked: a process loses its record locks on a file when it closes any descriptor of the file
/// (fcntl_locking(2)).
///
/// # Errors
/// Fails with [`ClaimError::Owned`] if another job owns the directory or does not complete the
/// owner file in time, and with [`ClaimError::System`] if the file cannot be read or written, or
/// stays locked by another process of this job.
pub fn claim(
    directory: &Path,
    own: &DirectoryOwner,
    lift: fn(OwnedFd) -> File,
) -> Result<Ownership, ClaimError> {
    let path = directory.join(OWNER);
    let until = Instant::now() + WRITE_TIME_LIMIT;
    loop {
        let mut ownership = Ownership {
            file: lift(open(&path)?.into()),
            path: path.clone(),
        };
        let (may_write, sees_locks) = match fcntl_lock(&ownership.file, NON_BLOCKING_EXCLUSIVE) {
            Ok(()) => (true, true),
            Err(Errno::AGAIN | Errno::ACCESS) => (false, true),
            // The file system has no locks: the content of the file decides alone.
            Err(_) => (true, false),
        };
        let found = ownership.read()?;
        if may_write && ownership.is_in_place() {
            ownership.write_and_share(found, own, sees_locks)?;
            return Ok(ownership);
        }
        let is_own = found.as_ref().is_some_and(|owner| owner.job == own.job);
        if is_own && ownership.share().is_ok() && ownership.is_in_place() {
            return Ok(ownership);
        }
        if Instant::now() > until {
            if is_own {
                return Err(ClaimError::System(still_locked()));
            }
            let owner = found.map(Box::new);
            return Err(ClaimError::Owned { owner, path });
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Returns the error for a file that another process of this job keeps locked.
fn still_locked() -> io::Error {
    let seconds = WRITE_TIME_LIMIT.as_secs();
    let why = format!("another process of this job has locked the file for more than {seconds} s");
    io::Error::new(io::ErrorKind::TimedOut, why)
}

const NON_BLOCKING_EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let no_link = OFlags::NOFOLLOW.bits() as i32;
    options.mode(0o600).custom_flags(no_link).open(path)
}

impl Ownership {
    /// True if the path still names the opened file.
    ///
    /// The owner may have removed the file after this process has opened it.
    fn is_in_place(&self) -> bool {
        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(id);
        let current = std::fs::symlink_metadata(&self.path).map(id);
        matches!((own, current), (Ok(own), Ok(current)) if own == current)
    }

    /// Reads the owner; `None` if the content is incomplete.
    fn read(&mut self) -> io::Result<Option<DirectoryOwner>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(DirectoryOwner::parse(&text))
    }

    /// Writes the owner file, then changes the exclusive lock to a shared lock.
    ///
    /// The file is not written if it names this job already. `found` is the present content.
    ///
    /// # Errors
    /// Fails if `found` names another job that may be running, or if the file cannot be written.
    fn write_and_share(
        &mut self,
        found: Option<DirectoryOwner>,
        own: &DirectoryOwner,
        sees_locks: bool,
    ) -> Result<(), ClaimError> {
        let is_own = |owner: &DirectoryOwner| owner.job == own.job;
        let term = found.as_ref().map_or(0, |owner| owner.term) + 1;
        match found {
            Some(owner) if is_own(&owner) => {}
            Some(owner) if !owner.has_ended(own, sees_locks) => {
                let (owner, path) = (Some(Box::new(owner)), self.path.clone());
                return Err(ClaimError::Owned { owner, path });
            }
            _ => self.write(&DirectoryOwner {
                term,
                ..own.clone()
            })?,
        }
        if sees_locks {
            self.share()?;
        }
        Ok(())
    }

    fn write(&mut self, owner: &DirectoryOwner) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(owner.text().as_bytes())?;
        self.file.sync_all()
    }

    /// Takes the shared lock; an exclusive lock of this process becomes shared.
    fn share(&self) -> io::Result<()> {
        Ok(fcntl_lock(
            &self.file,
            FlockOperation::NonBlockingLockShared,
        )?)
    }

    /// Removes the owner file, by which the job releases the directory.
    ///
    /// Called after a successful end of the job.
    pub fn remove(self) {
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn job(name: &str) -> DirectoryOwner {
        DirectoryOwner::current(name, |_| None)
    }

    fn claimed(directory: &Path, own: &DirectoryOwner) -> Result<Ownership, ClaimError> {
        claim(directory, own, File::from)
    }

    /// Makes another process take a lock on the file until the returned child exits.
    ///
    /// `lock` is `LOCK_SH` or `LOCK_EX`.
    fn other_process(path: &Path, lock: &str) -> std::process::Child {
        let script = format!(
            "import fcntl, sys\nfile = open(sys.argv[1], 'r+')\n\
             fcntl.lockf(file, fcntl.{lock})\nprint(flush=True)\nsys.stdin.read()"
        );
        let mut child = Command::new("python3")
            .args(["-c", &script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut output = child.stdout.take().expect("it is piped");
        output.read_exact(&mut [0]).expect("it has the lock");
        child
    }

    #[test]
    fn a_running_owner_is_named_and_an_ended_one_replaced() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(OWNER);
        let first = claimed(place.path(), &job("first")).expect("it is new");
        let mut child = other_process(&path, "LOCK_SH");
        drop(first);
        // Another process of the first job.
        drop(claimed(place.path(), &job("first")).expect("it is the same job"));
        let refused = claimed(place.path(), &job("second")).expect_err("the first job runs");
        let words = refused.to_string();
        assert!(words.contains("job first (process"), "{words}");
        drop(child.stdin.take());
        child.wait().expect("it ends");
        let second = claimed(place.path(), &job("second")).expect("the first job has ended");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(
            DirectoryOwner::parse(&text).map(|it| (it.job, it.term)),
            Some(("second".into(), 2))
        );
        second.remove();
        assert!(!path.exists());
    }

    /// Another process has locked the file, which is incomplete or names the own job.
    #[test]
    fn a_claim_that_is_not_granted_in_time_is_explained() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(OWNER);
        for (content, lock, reason) in [
            (String::new(), "LOCK_SH", "another job owns the directory"),
            (job("own").text(), "LOCK_EX", "another process of this job"),
        ] {
            std::fs::write(&path, content).expect("writable");
            let mut child = other_process(&path, lock);
            let refused = claimed(place.path(), &job("own")).expect_err("the file is locked");
            let words = refused.to_string();
            assert!(words.contains(reason), "{words}");
            drop(child.stdin.take());
            child.wait().expect("it ends");
        }
    }

    #[test]
    fn an_owner_on_another_host_has_ended_only_with_proof() {
        let own = DirectoryOwner {
            batch: "7".into(),
            restarts: 1,
            ..job("own")
        };
        let other = |host: &str, batch: &str| DirectoryOwner {
            host: host.into(),
            boot: "another".into(),
            batch: batch.into(),
            ..job("other")
        };
        let has_ended = |it: DirectoryOwner| it.has_ended(&own, true);
        assert!(!has_ended(other("elsewhere", "")));
        assert!(!has_ended(other("elsewhere", "8")));
        assert!(
            has_ended(other("elsewhere", "7")),
            "an earlier start of the batch job"
        );
        assert!(has_ended(other(&own.host, "")), "the host has started anew");
        assert!(!job("other").has_ended(&own, false), "locks are not seen");
    }

    #[test]
    fn an_incomplete_file_names_no_owner() {
        let text = job("own").text();
        assert_eq!(DirectoryOwner::parse(&text), Some(job("own")));
        assert_eq!(DirectoryOwner::parse(&text[..text.len() - 2]), None);
        assert_eq!(DirectoryOwner::parse(""), None);
    }
}
