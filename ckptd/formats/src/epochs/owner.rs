//! Owner of a directory of epochs.
//!
//! Two running jobs in one directory would overwrite each other's files. So each process of a job
//! has a shared lock (fcntl(2), POSIX record locks) on a file there, which contains the job's name.
//! Another job needs the exclusive lock, and proof that the owner has ended: the kernel drops the
//! locks of a process that exits, but locks of another host may be invisible here.

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

/// Name of the file.
pub const OWNER: &str = "understudy-owner";

/// Time limit within which another process of the job writes the file.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two attempts to get a lock.
const RETRY: Duration = Duration::from_millis(20);

/// Description of a job, as in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
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
    /// Job of the batch system, and the number of its restarts; empty without one.
    pub batch: String,
    pub restarts: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "job {} (process {} on {})",
            self.job, self.pid, self.host
        )
    }
}

impl Owner {
    /// Returns the description of this process's job with that name.
    pub fn current(job: &str, variable: impl Fn(&str) -> Option<String>) -> Owner {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let number = |name| variable(name).and_then(|value| value.parse().ok());
        let pid = std::process::id();
        Owner {
            job: job.into(),
            host: read("/proc/sys/kernel/hostname").trim().into(),
            boot: read("/proc/sys/kernel/random/boot_id").trim().into(),
            pid,
            start: proc_stat::number(pid, proc_stat::START).unwrap_or(0),
            term: 1,
            batch: variable("SLURM_JOB_ID").unwrap_or_default(),
            restarts: number("SLURM_RESTART_COUNT").unwrap_or(0),
        }
    }

    /// Parses the content of the file.
    ///
    /// `None` if the content is incomplete.
    fn parse(text: &str) -> Option<Owner> {
        let text = text.strip_suffix("\nend\n")?;
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let mut owner = Owner::default();
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
        let Owner {
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

    /// True if this owner, whose locks are not visible here, has certainly ended.
    ///
    /// `sees_locks` is false if the file system has no locks.
    fn has_ended(&self, own: &Owner, sees_locks: bool) -> bool {
        let is_same_kernel = self.boot == own.boot;
        let has_rebooted = self.host == own.host && !is_same_kernel;
        let is_earlier_start =
            !self.batch.is_empty() && self.batch == own.batch && self.restarts < own.restarts;
        is_same_kernel && sees_locks || has_rebooted || is_earlier_start
    }
}

/// Shared lock of a process of the owner.
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
        owner: Box<Owner>,
        path: PathBuf,
    },
    System(io::Error),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Owned { owner, path } => {
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
/// Each process of the job calls this. The directory is owned until all of them have exited. `lift`
/// may change the file's descriptor before it has a lock: closing any descriptor would end the
/// lock.
///
/// # Errors
/// [`ClaimError::Owned`] if another job owns the directory, or an error of open(2) or write(2).
pub fn claim(
    directory: &Path,
    own: &Owner,
    lift: fn(OwnedFd) -> File,
) -> Result<Ownership, ClaimError> {
    let path = directory.join(OWNER);
    let until = Instant::now() + PATIENCE;
    loop {
        let mut ownership = Ownership {
            file: lift(open(&path)?.into()),
            path: path.clone(),
        };
        let (is_alone, sees_locks) = match fcntl_lock(&ownership.file, NON_BLOCKING_EXCLUSIVE) {
            Ok(()) => (true, true),
            Err(Errno::AGAIN | Errno::ACCESS) => (false, true),
            Err(_) => (true, false),
        };
        let found = ownership.read()?;
        if is_alone && ownership.is_in_place() {
            ownership.take(found, own, sees_locks)?;
            return Ok(ownership);
        }
        let is_own = found.as_ref().is_some_and(|it| it.job == own.job);
        if is_own && ownership.share().is_ok() && ownership.is_in_place() {
            return Ok(ownership);
        }
        if Instant::now() > until {
            let owner = Box::new(found.unwrap_or_default());
            return Err(ClaimError::Owned { owner, path });
        }
        std::thread::sleep(RETRY);
    }
}

const NON_BLOCKING_EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let no_link = OFlags::NOFOLLOW.bits() as i32;
    options.mode(0o600).custom_flags(no_link).open(path)
}

impl Ownership {
    /// True if the file has not been removed since it was opened.
    fn is_in_place(&self) -> bool {
        let id = |about: std::fs::Metadata| (about.dev(), about.ino());
        let own = self.file.metadata().map(id);
        let there = std::fs::symlink_metadata(&self.path).map(id);
        matches!((own, there), (Ok(own), Ok(there)) if own == there)
    }

    /// Reads the owner; `None` if the content is incomplete.
    fn read(&mut self) -> io::Result<Option<Owner>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(Owner::parse(&text))
    }

    /// Writes the owner under the exclusive lock, and keeps the shared lock.
    fn take(
        &mut self,
        found: Option<Owner>,
        own: &Owner,
        sees_locks: bool,
    ) -> Result<(), ClaimError> {
        let is_own = |it: &Owner| it.job == own.job;
        let term = found.as_ref().map_or(0, |it| it.term) + 1;
        match found {
            Some(it) if is_own(&it) => {}
            Some(it) if !it.has_ended(own, sees_locks) => {
                let (owner, path) = (Box::new(it), self.path.clone());
                return Err(ClaimError::Owned { owner, path });
            }
            _ => self.write(&Owner {
                term,
                ..own.clone()
            })?,
        }
        if sees_locks {
            self.share()?;
        }
        Ok(())
    }

    fn write(&mut self, owner: &Owner) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(owner.text().as_bytes())?;
        self.file.sync_all()
    }

    fn share(&self) -> io::Result<()> {
        Ok(fcntl_lock(
            &self.file,
            FlockOperation::NonBlockingLockShared,
        )?)
    }

    /// Releases the directory after a successful end of the job.
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

    fn job(name: &str) -> Owner {
        Owner::current(name, |_| None)
    }

    fn claimed(directory: &Path, own: &Owner) -> Result<Ownership, ClaimError> {
        claim(directory, own, File::from)
    }

    /// Makes another process take a shared lock on the file until the returned child exits.
    fn other_process(path: &Path) -> std::process::Child {
        let script = "import fcntl, sys\nfile = open(sys.argv[1])\n\
                      fcntl.lockf(file, fcntl.LOCK_SH)\nprint(flush=True)\nsys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", script])
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
        let mut child = other_process(&path);
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
            Owner::parse(&text).map(|it| (it.job, it.term)),
            Some(("second".into(), 2))
        );
        second.remove();
        assert!(!path.exists());
    }

    #[test]
    fn an_owner_on_another_host_has_ended_only_with_proof() {
        let own = Owner {
            batch: "7".into(),
            restarts: 1,
            ..job("own")
        };
        let other = |host: &str, batch: &str| Owner {
            host: host.into(),
            boot: "another".into(),
            batch: batch.into(),
            ..job("other")
        };
        let has_ended = |it: Owner| it.has_ended(&own, true);
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
        assert_eq!(Owner::parse(&text), Some(job("own")));
        assert_eq!(Owner::parse(&text[..text.len() - 2]), None);
        assert_eq!(Owner::parse(""), None);
    }
}
