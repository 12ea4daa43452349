//! Where the guardians of a job meet its process manager.
//!
//! Whatever has started them has told each its rank, their number, and a name that they have in common. The job's
//! directory in memory is called after that name. Who finds no manager there starts one, and a lock sees to it that only one does.

#![allow(unsafe_code)]

use super::Error;
use super::duty::{Duty, FromLeader};
use super::launchers::{JobName, Launcher, Meeting};
use super::meeting::Leader;
use super::parent::tie_to;
use super::pipe::{Messages, put};
use super::share::Environment;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, set_parent_process_death_signal, setsid};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use understudy_formats::private::{self, Directory};
use understudy_node::leftovers_of_job;
use understudy_numbers::Guardian;
use understudy_protocol::GATHERING;
use understudy_relay::{job_of_directory, name_of_directory};
use understudy_wire::auth;
use understudy_wire::line::{Line, Listener, Socket};

/// What the names of jobs begin with that [`super::starter`] has started.
pub(super) const OWN: &str = "ckptd-";
/// The file that is locked while a manager is looked for.
const LOCK: &str = "lock";

/// How often the manager is looked for that another process starts.
const LOOK: Duration = Duration::from_millis(5);

/// A line to a manager, and the manager if it was started for that.
type Found = (io::Result<Line>, Option<Child>);

/// What this process is in what a launcher has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Unique among the jobs of this user.
    pub job: String,
    pub rank: Guardian,
    pub size: u32,
    /// Ranks of this node, and the place among them.
    pub local_size: u32,
    pub local_rank: u32,
    /// How the nodes find each other, if there are several.
    meeting: Option<Meeting>,
}

impl Seat {
    /// As the environment says.
    ///
    /// # Errors
    /// [`Error::NotLaunched`]; [`Error::Nodes`] if the job has several.
    pub fn from_environment() -> Result<Seat, Error> {
        let text = |name: &str| std::env::var(name).ok();
        let launcher = Launcher::of(text).ok_or(understudy_pmi::Error::NotLaunched)?;
        let number = |name| text(name)?.parse::<u32>().ok();
        let job = match launcher.job {
            JobName::Variable(name) => text(name).map(name_of_job),
            JobName::Parent => Some(name_of_parent()),
            JobName::Step(job, step) => number(job).zip(number(step)).map(name_of_step),
        };
        let seat = job.zip(number(launcher.rank)).zip(number(launcher.size));
        let ((job, rank), size) = seat.ok_or(understudy_pmi::Error::NotLaunched)?;
        let is_alone = text(launcher.local_size) == text(launcher.size);
        let local_size = match launcher.node {
            None => number(launcher.local_size),
            Some(node) => number(node).and_then(|node| ranks_of(&text(launcher.local_size)?, node)),
        };
        let seat = Seat {
            job,
            rank: Guardian(rank),
            size,
            local_size: if is_alone {
                size
            } else {
                local_size.ok_or(understudy_pmi::Error::NotLaunched)?
            },
            local_rank: number(launcher.local_rank).unwrap_or(rank),
            meeting: launcher.meeting(text).filter(|_| !is_alone),
        };
        match is_alone || seat.meeting.is_some() {
            true => Ok(seat),
            false => Err(Error::Nodes),
        }
    }

    /// Whether [`super::starter`] has started this, which cannot serve an MPI library by itself.
    pub fn is_ours(&self) -> bool {
        self.job.starts_with(OWN)
    }

    pub fn directory(&self) -> PathBuf {
        directory_of(&self.job)
    }

    /// Whether all of the job is on this node.
    pub fn is_on_one_node(&self) -> bool {
        self.local_size == self.size
    }

    /// A line to the job's manager on this node, which is started if there is none, and is then this process's child. If the job has several nodes,
    /// the first process of each starts it; all come to the meeting, and call the job as the first does.
    ///
    /// # Errors
    /// What stands in the way of the directory, or of a process in it.
    pub fn call(&mut self) -> Result<(Line, Option<Child>), Error> {
        let Some(meeting) = self.meeting.filter(|_| !self.is_ours()) else {
            return self.call_or_start();
        };
        let manager = match self.rank {
            Guardian(0) => Some(self.start_leader(meeting)?),
            _ => {
                let leader = Leader::find(meeting)?;
                self.job.clone_from(&leader.job);
                let is_first = self.local_rank == 0;
                is_first.then(|| self.start_follower(leader)).transpose()?
            }
        };
        let began = Instant::now();
        loop {
            match Line::call(&self.directory(), Socket::Manager) {
                Ok(line) => return Ok((line, manager)),
                Err(error) if began.elapsed() > GATHERING => {
                    return Err(Error::system("the process manager")(error));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    fn start_follower(&self, leader: Leader) -> Result<Child, Error> {
        let duty = Duty::Follow {
            token: leader.token,
            node: self.rank.0,
            leader: leader.addresses,
        };
        start_with_duty(&self.job, &duty, None)
    }

    /// On the node of rank 0, which tells the others.
    fn start_leader(&self, meeting: Meeting) -> Result<Child, Error> {
        let token = auth::nonce().map_err(Error::system("getrandom"))?.to_vec();
        let duty = Duty::Lead {
            token: token.clone(),
            others: Vec::new(),
        };
        let mut manager = start_with_duty(&self.job, &duty, None)?;
        let port = port_of(&mut manager)?;
        let own = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let addresses = vec![format!("{own}:{port}")];
        let leader = Leader {
            job: self.job.clone(),
            token,
            addresses,
        };
        leader.publish(meeting)?;
        Ok(manager)
    }

    fn call_or_start(&self) -> Result<(Line, Option<Child>), Error> {
        let (directory, _lock) = match self.is_ours() {
            // Without its directory the job is over.
            true => self.lock_again()?.ok_or(Error::NoManager)?,
            false => locked(&self.job)?,
        };
        let path = directory.path().to_owned();
        if let Ok(line) = Line::call(&path, Socket::Manager) {
            return Ok((line, None));
        }
        self.clear(&directory);
        let manager = start_manager(&directory, &path, None)?;
        let line =
            Line::call(&path, Socket::Manager).map_err(Error::system("the process manager"))?;
        Ok((line, Some(manager)))
    }

    /// A line to another manager when one has died; it is started if there is none. An error of the line: that has died, too. `None` if the job is
    /// over: its directory is gone.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(super) fn call_again(&self) -> Result<Option<Found>, Error> {
        let path = self.directory();
        let Some((directory, _lock)) = self.lock_again()? else {
            return Ok(None);
        };
        if let Ok(line) = Line::call(&path, Socket::Manager) {
            return Ok(Some((Ok(line), None)));
        }
        say!("understudy: the process manager of this job has died; another one takes its place");
        let manager = start_manager(&directory, &path, None)?;
        Ok(Some((Line::call(&path, Socket::Manager), Some(manager))))
    }

    /// The job's directory, locked; `None` if it is gone, and so the job is over.
    fn lock_again(&self) -> Result<Option<(Directory, File)>, Error> {
        let path = self.directory();
        let directory = Directory::open(&path)
            .map_err(|refused| Error::system("the job's directory")(refused.into()))?;
        let Some(directory) = directory else {
            return Ok(None);
        };
        let lock = lock(&directory)?;
        Ok(path.exists().then_some((directory, lock)))
    }

    /// Ends the job for want of a manager: removes what it has left on this node. False if that has been done.
    ///
    /// # Errors
    /// Those of the directory.
    pub(super) fn end(&self) -> Result<bool, Error> {
        let locked = self.lock_again()?;
        if locked.is_some() {
            remove_left(&self.directory());
        }
        Ok(locked.is_some())
    }

    /// Where processes call their guardian.
    ///
    /// # Errors
    /// Those of the directory, and of the socket.
    pub(super) fn listen(&self) -> Result<Listener, Error> {
        let what = || Error::system("a socket in the job's directory");
        let directory =
            Directory::open(&self.directory()).map_err(|refused| what()(refused.into()))?;
        let directory = directory.ok_or(Error::NoManager)?;
        Listener::new(&directory, Socket::Guardian(self.rank)).map_err(what())
    }

    /// Removes what a job of the same name has left that was killed with its manager: before it was requeued, say, or in a container.
    fn clear(&self, directory: &Directory) {
        let lives = |rank| Line::call(directory.path(), Socket::Guardian(rank)).is_ok();
        let names = directory.names();
        let guardians = names
            .iter()
            .filter_map(|name| Socket::guardian_of(name.to_str()?));
        // It is this job, whose manager has just died.
        if guardians.into_iter().any(lives) {
            return;
        }
        for name in directory.names().iter().filter(|name| *name != LOCK) {
            let _ = directory.remove_all(name);
        }
        for left in leftovers_of_job(&self.job) {
            if left.path() != self.directory() {
                let _ = left.remove();
            }
        }
    }
}

/// Removes what the job that has this directory has left on this node, and the directory.
pub(super) fn remove_left(directory: &Path) {
    let name = directory
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let name = job_of_directory(name);
    // The directory first: a relay that makes its ledger later removes that itself.
    for is_directory in [true, false] {
        let all = leftovers_of_job(name).into_iter();
        for left in all.filter(|left| (left.path() == directory) == is_directory) {
            let _ = left.remove();
        }
    }
}

/// The job's directory in memory, which `understudy clean` knows by its name.
pub(super) fn directory_of(job: &str) -> PathBuf {
    private::in_memory().join(name_of_directory(job))
}

/// Makes a job's directory, and locks it: one at a time looks for the manager.
fn locked(job: &str) -> Result<(Directory, File), Error> {
    let refused = |refused: private::Refused| match refused.is_planted() {
        true => Error::Planted(refused),
        false => Error::NoSharedMemory(refused),
    };
    private::make_in_memory().map_err(refused)?;
    let directory = Directory::make(&directory_of(job)).map_err(refused)?;
    let lock = lock(&directory)?;
    Ok((directory, lock))
}

/// Makes the directory of a job of [`super::starter`]: guardians that come when it is gone are too late.
///
/// # Errors
/// What stands in the way of the directory.
pub(super) fn prepare(job: &str) -> Result<(), Error> {
    locked(job).map(drop)
}

fn lock(directory: &Directory) -> Result<File, Error> {
    let lock = directory.open_own(LOCK.as_ref(), libc::O_RDWR | libc::O_CREAT);
    let lock = lock.map_err(Error::system("the lock of the job's directory"))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|errno| Error::system("flock")(errno.into()))?;
    Ok(lock)
}

/// Starts the manager of a job on several nodes before its guardians, which will find it. It is told its duty by its standard input, and
/// its standard output is a pipe.
///
/// # Errors
/// As [`Seat::call`]; [`Error::SameHost`].
pub(super) fn start_with_duty(
    job: &str,
    duty: &Duty,
    environment: Option<&Environment>,
) -> Result<Child, Error> {
    let (directory, _lock) = locked(job)?;
    let path = directory.path().to_owned();
    if Line::call(&path, Socket::Manager).is_ok() {
        return Err(Error::SameHost);
    }
    let mut manager = start_manager(&directory, &path, Some(environment))?;
    if let Some(input) = &mut manager.stdin {
        put(input, duty).map_err(Error::system("the process manager"))?;
    }
    Ok(manager)
}

/// Where a leader that has just been started listens.
pub(super) fn port_of(leader: &mut Child) -> Result<u16, Error> {
    let output = leader.stdout.as_mut().ok_or(Error::NoManager)?;
    let FromLeader::Port(port) = Messages::new(output).next().map_err(|_| Error::NoManager)? else {
        return Err(Error::NoManager);
    };
    Ok(port)
}

/// The socket of a manager that has just been started.
pub fn inherited(socket: RawFd) -> Listener {
    // SAFETY: `start_manager` has left it open for this process, which uses it for nothing else.
    Listener::from(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn name_of_parent() -> String {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("mpiexec-{host}-{}@1", std::os::unix::process::parent_id())
}

/// Open MPI 4's are bare numbers, by which nobody would know what belongs to a job.
fn name_of_job(name: String) -> String {
    match name.contains('@') {
        true => name,
        false => format!("openmpi.{name}@1"),
    }
}

/// No process stands for it: the step's is another one on each node.
fn name_of_step((job, step): (u32, u32)) -> String {
    format!("slurm-{job}.{step}@1")
}

/// The ranks of one node, from those of all in order: `2(x3),1` is 2, 2, 2, 1.
fn ranks_of(text: &str, node: u32) -> Option<u32> {
    let mut first = 0;
    text.split(',').find_map(|group| {
        let (ranks, nodes) = group.split_once("(x").unwrap_or((group, "1)"));
        first += nodes.strip_suffix(')')?.parse::<u32>().ok()?;
        ranks.parse().ok().filter(|_| node < first)
    })
}

/// Starts a manager that listens there, in a session of its own. One with a duty has pipes, and this environment if not this process's own.
fn start_manager(
    directory: &Directory,
    path: &Path,
    duty: Option<Option<&Environment>>,
) -> Result<Child, Error> {
    let own = std::env::current_exe().map_err(Error::system("this program's file"))?;
    let what = || Error::system("the process manager's socket");
    let listener = Listener::new(directory, Socket::Manager).map_err(what())?;
    let descriptor = listener.as_fd().try_clone_to_owned().map_err(what())?;
    let mut command = Command::new(own);
    command
        .arg("manage")
        .arg(descriptor.as_raw_fd().to_string())
        .arg(path);
    match duty {
        None => command.stdin(Stdio::null()).stdout(Stdio::null()),
        Some(_) => command
            .arg("--has-duty")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    };
    if let Some(environment) = duty.flatten() {
        environment.give_to(&mut command);
    }
    command.env_remove("LD_PRELOAD");
    command.envs(private::runtime_variable());
    // Its servers would take these for their own launcher's.
    for (name, _) in std::env::vars_os().filter(|(name, _)| understudy_pmi::is_of_a_launcher(name))
    {
        command.env_remove(name);
    }
    let (is_alone, parent) = (duty.is_none(), getpid());
    let prepare = move || {
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        setsid()?;
        // Until a guardian has come (`Node`). One with a duty ends with its standard input.
        match is_alone {
            true => tie_to(parent, Signal::KILL),
            false => Ok(set_parent_process_death_signal(None)?),
        }
    };
    // SAFETY: between fork and exec only system calls are made.
    let command = unsafe { command.pre_exec(prepare) };
    command
        .spawn()
        .map_err(Error::system("the process manager"))
}

#[cfg(test)]
mod tests {
    use super::ranks_of;

    #[test]
    fn slurm_tells_the_ranks_of_all_nodes() {
        let of = |text| [0, 1, 2, 3].map(|node| ranks_of(text, node));
        assert_eq!(of("2(x2),1"), [Some(2), Some(2), Some(1), None]);
        assert_eq!(of("3"), [Some(3), None, None, None]);
        assert_eq!(of("1,4(x3)"), [Some(1), Some(4), Some(4), Some(4)]);
        assert_eq!(of("some"), [None; 4]);
    }
}
