//! Position of this process among the processes that a launcher has started.
//!
//! The launcher gives each guardian its rank, the number of guardians, and a common name. The
//! job's directory in memory has that name. A guardian that finds no manager in the directory
//! starts one, under a lock, so that the node has only one manager.

use super::launchers::{AddressService, JobName, Launcher};
use super::leader_address::LeaderAddress;
use crate::Error;
use crate::job_directory::{CKPTD_JOB, LOCK, directory_of, lock, locked, remove_left};
use crate::manager_process::{Succession, port_of, start_manager, start_with_duty};
use crate::messages::ManagerDuty;
use crate::print_message::print_message;
use crate::published_addresses::published_addresses;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use understudy_catalogue::{exit_status, message};
use understudy_formats::host::host_name;
use understudy_formats::private_directories::PrivateDirectory;
use understudy_node::leftovers_of_job;
use understudy_numbers::Guardian;
use understudy_protocol::JOIN_TIMEOUT;
use understudy_wire::auth;
use understudy_wire::line::{Line, LineListener, LineSocket};

/// Poll interval while another process starts the manager.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// File of the guardian that has reported the loss of the manager.
const LOST_MANAGER_REPORT: &str = "manager-gone";

/// Way to replace a manager that has died.
#[derive(Clone, Copy)]
pub enum ManagerReplacement<'a> {
    /// The manager had the leader of a job on several nodes.
    Impossible,
    /// All processes of the job are on this node.
    OnlyNode,
    /// The manager was connected to the leader on another node.
    Node(&'a Succession),
}

/// A connection to a manager, and the manager if it was started for the connection.
type ManagerConnection = (io::Result<Line>, Option<Child>);

/// Position of this process in the launcher's job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LauncherPosition {
    /// Name of the job, unique among the jobs of this user.
    pub job: String,
    pub rank: Guardian,
    pub size: u32,
    /// Number of ranks on this node.
    pub local_size: u32,
    /// Rank among the processes of this node.
    pub local_rank: u32,
    /// Service by which the nodes exchange the leader's address, if there are several nodes.
    address_service: Option<AddressService>,
}

impl LauncherPosition {
    /// Reads the position from the environment.
    ///
    /// # Errors
    /// [`understudy_pmi::Error::NotLaunched`]; [`Error::Nodes`] if the job has several nodes and no
    /// key-value store.
    pub fn from_environment() -> Result<LauncherPosition, Error> {
        let text = |name: &str| std::env::var(name).ok();
        let launcher = Launcher::of(text).ok_or(understudy_pmi::Error::NotLaunched)?;
        let number = |name| text(name)?.parse::<u32>().ok();
        let job = match launcher.job {
            JobName::Variable(name) => text(name).map(name_of_job),
            JobName::Parent => Some(name_of_parent()),
            JobName::Step(job, step) => number(job).zip(number(step)).map(name_of_step),
        };
        let position = job.zip(number(launcher.rank)).zip(number(launcher.size));
        let ((job, rank), size) = position.ok_or(understudy_pmi::Error::NotLaunched)?;
        let is_alone = text(launcher.local_size) == text(launcher.size);
        let local_size = match launcher.node {
            None => number(launcher.local_size),
            Some(node) => number(node).and_then(|node| ranks_of(&text(launcher.local_size)?, node)),
        };
        let position = LauncherPosition {
            job,
            rank: Guardian(rank),
            size,
            local_size: if is_alone {
                size
            } else {
                local_size.ok_or(understudy_pmi::Error::NotLaunched)?
            },
            local_rank: number(launcher.local_rank).unwrap_or(rank),
            address_service: launcher.address_service(text).filter(|_| !is_alone),
        };
        match is_alone || position.address_service.is_some() {
            true => Ok(position),
            false => Err(Error::Nodes),
        }
    }

    /// True if [`crate::starter`] has started this process.
    ///
    /// The starter cannot serve an MPI library by itself.
    pub fn is_of_starter(&self) -> bool {
        self.job.starts_with(CKPTD_JOB)
    }

    pub fn directory(&self) -> PathBuf {
        directory_of(&self.job)
    }

    /// True if all processes of the job are on this node.
    pub fn is_on_one_node(&self) -> bool {
        self.local_size == self.size
    }

    /// Connects to the job's manager on this node; starts a manager if there is none.
    ///
    /// A manager that was started is a child of this process. If the job has several nodes, the
    /// first process of each node starts the manager. All processes take part in the exchange of
    /// the leader's address, and name the job as the first process does.
    ///
    /// # Errors
    /// Errors of the directory and of starting the manager.
    pub fn connect(&mut self) -> Result<(Line, Option<Child>), Error> {
        let Some(service) = self.address_service.filter(|_| !self.is_of_starter()) else {
            return self.connect_or_start();
        };
        let manager = match self.rank {
            Guardian(0) => Some(self.start_leader(service)?),
            _ => {
                let leader = LeaderAddress::find(service)?;
                self.job.clone_from(&leader.job);
                let is_first = self.local_rank == 0;
                is_first.then(|| self.start_follower(leader)).transpose()?
            }
        };
        let line = await_manager(&self.directory(), JOIN_TIMEOUT, || false);
        let line = line.map_err(Error::system("the node manager"))?;
        Ok((line, manager))
    }

    fn start_follower(&self, leader: LeaderAddress) -> Result<Child, Error> {
        let duty = ManagerDuty::Follow {
            token: leader.token,
            node: self.rank.0,
            leader: leader.addresses,
        };
        start_with_duty(&self.job, &duty, None)
    }

    /// Starts the leader on the node of rank 0, and publishes its address.
    fn start_leader(&self, service: AddressService) -> Result<Child, Error> {
        let token = auth::nonce().map_err(Error::system("getrandom"))?.to_vec();
        let duty = ManagerDuty::Lead {
            token: token.clone(),
            others: Vec::new(),
        };
        let mut manager = start_with_duty(&self.job, &duty, None)?;
        let port = port_of(&mut manager)?;
        let addresses = published_addresses(None, &host_name(), port);
        let leader = LeaderAddress {
            job: self.job.clone(),
            token,
            addresses,
        };
        leader.publish(service)?;
        Ok(manager)
    }

    fn connect_or_start(&self) -> Result<(Line, Option<Child>), Error> {
        let (directory, _lock) = match self.is_of_starter() {
            // Without its directory the job is over.
            true => self.lock_directory()?.ok_or(Error::NoManager)?,
            false => locked(&self.job)?,
        };
        let path = directory.path().to_owned();
        if let Some(line) = existing_manager(&path)? {
            return Ok((line, None));
        }
        if !self.is_on_one_node() {
            // The manager has died before it has given its duty to any guardian.
            return Err(Error::NoManager);
        }
        self.remove_leftovers(&directory);
        let manager = start_manager(&directory, &path, None, None)?;
        let line =
            Line::connect(&path, LineSocket::Manager).map_err(Error::system("the node manager"))?;
        Ok((line, Some(manager)))
    }

    /// Connects to the manager that replaces a dead manager; starts it if necessary.
    ///
    /// The connection is an error if the new manager has died, too. Returns `None` if the job is
    /// over, because its directory has been removed. The manager may also be the earlier one, which
    /// requests another report.
    ///
    /// # Errors
    /// Errors of [`connect`](Self::connect); [`Error::NoManager`] if none may be started.
    pub(super) fn reconnect(
        &self,
        replacement: ManagerReplacement<'_>,
    ) -> Result<Option<ManagerConnection>, Error> {
        let path = self.directory();
        let Some((directory, _lock)) = self.lock_directory()? else {
            return Ok(None);
        };
        if let Some(line) = existing_manager(&path)? {
            return Ok(Some((Ok(line), None)));
        }
        let succession = match replacement {
            ManagerReplacement::Impossible => return Err(Error::NoManager),
            ManagerReplacement::OnlyNode => None,
            ManagerReplacement::Node(succession) => Some(succession),
        };
        print_message(message::manager_replaced(host_name()));
        let manager = match succession {
            None => start_manager(&directory, &path, None, None),
            Some(succession) => succession.start(&directory, &path),
        }?;
        Ok(Some((
            Line::connect(&path, LineSocket::Manager),
            Some(manager),
        )))
    }

    /// Returns the job's directory, locked; `None` if it was removed because the job is over.
    fn lock_directory(&self) -> Result<Option<(PrivateDirectory, File)>, Error> {
        let path = self.directory();
        let directory = PrivateDirectory::open(&path)
            .map_err(|refused| Error::system("the job's directory")(refused.into()))?;
        let Some(directory) = directory else {
            return Ok(None);
        };
        let lock = lock(&directory)?;
        Ok(path.exists().then_some((directory, lock)))
    }

    /// Ends the job after the managers have died: removes its leftovers on this node.
    ///
    /// Returns false if this has been done already.
    ///
    /// # Errors
    /// Errors of the directory.
    pub(super) fn end_job(&self) -> Result<bool, Error> {
        let locked = self.lock_directory()?;
        if locked.is_some() {
            remove_left(&self.directory());
        }
        Ok(locked.is_some())
    }

    /// Reports that the manager is gone and is not replaced; returns the exit status.
    ///
    /// The guardian of the node that creates the file prints the line.
    pub(super) fn report_lost_manager(&self) -> i32 {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let directory = PrivateDirectory::open(&self.directory()).ok().flatten();
        let created = directory.map(|it| it.open_own(LOST_MANAGER_REPORT.as_ref(), flags));
        let is_reported =
            matches!(created, Some(Err(error)) if error.kind() == ErrorKind::AlreadyExists);
        if !is_reported {
            print_message(Error::NoManager);
        }
        exit_status::SYSTEM_REFUSAL
    }

    /// Creates the socket at which processes register with this guardian.
    ///
    /// # Errors
    /// Errors of the directory, and of the socket.
    pub(super) fn listen(&self) -> Result<LineListener, Error> {
        let failed = || Error::system("a socket in the job's directory");
        let directory = PrivateDirectory::open(&self.directory())
            .map_err(|refused| failed()(refused.into()))?;
        let directory = directory.ok_or(Error::NoManager)?;
        LineListener::new(&directory, LineSocket::Guardian(self.rank)).map_err(failed())
    }

    /// Removes the leftovers of a killed job of the same name.
    ///
    /// A job has the name of a killed one if a batch system has requeued the job, or if process ids
    /// repeat in a container.
    fn remove_leftovers(&self, directory: &PrivateDirectory) {
        let is_alive = |rank| Line::connect(directory.path(), LineSocket::Guardian(rank)).is_ok();
        let names = directory.names();
        let guardians = names
            .iter()
            .filter_map(|name| LineSocket::guardian_of(name.to_str()?));
        // With a living guardian, the directory belongs to this job, whose manager has just died.
        if guardians.into_iter().any(is_alive) {
            return;
        }
        for name in directory.names().iter().filter(|name| *name != LOCK) {
            let _ = directory.remove_all(name);
        }
        for leftover in leftovers_of_job(&self.job) {
            if leftover.path() != self.directory() {
                let _ = leftover.remove();
            }
        }
    }
}

/// Connects to the manager in a job's directory; `None` if no manager is alive.
///
/// # Errors
/// Fails with all other errors of [`Line::connect`], because the job must not get a second manager.
fn existing_manager(directory: &Path) -> Result<Option<Line>, Error> {
    match Line::connect(directory, LineSocket::Manager) {
        Ok(line) => Ok(Some(line)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(Error::system("the node manager")(error)),
        },
    }
}

/// Connects to a manager that another process starts.
///
/// Attempts are repeated until `timeout` has passed or `is_over` returns true.
///
/// # Errors
/// Fails with the error of the last attempt.
pub(super) fn await_manager(
    directory: &Path,
    timeout: Duration,
    is_over: impl Fn() -> bool,
) -> io::Result<Line> {
    let began = Instant::now();
    loop {
        let attempt = Line::connect(directory, LineSocket::Manager);
        if attempt.is_ok() || began.elapsed() > timeout || is_over() {
            return attempt;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn name_of_parent() -> String {
    let host = host_name();
    format!("mpiexec-{host}-{}@1", std::os::unix::process::parent_id())
}

/// Returns the name of a job with the `@` by which its files are recognised.
///
/// Open MPI 4 names a job by a bare number.
fn name_of_job(name: String) -> String {
    match name.contains('@') {
        true => name,
        false => format!("openmpi.{name}@1"),
    }
}

/// Returns a name made of the numbers of the batch job and its step.
///
/// The parent process does not identify the job, because each node has its own parent process.
fn name_of_step((job, step): (u32, u32)) -> String {
    format!("slurm-{job}.{step}@1")
}

/// Returns the number of ranks of one node from a list for all nodes.
///
/// The list `2(x3),1` means 2, 2, 2, 1.
fn ranks_of(text: &str, node: u32) -> Option<u32> {
    let mut first = 0;
    text.split(',').find_map(|group| {
        let (ranks, nodes) = group.split_once("(x").unwrap_or((group, "1)"));
        first += nodes.strip_suffix(')')?.parse::<u32>().ok()?;
        ranks.parse().ok().filter(|_| node < first)
    })
}

#[cfg(test)]
mod tests {
    use super::ranks_of;

    #[test]
    fn slurm_lists_the_ranks_of_all_nodes() {
        let counts = |text| [0, 1, 2, 3].map(|node| ranks_of(text, node));
        assert_eq!(counts("2(x2),1"), [Some(2), Some(2), Some(1), None]);
        assert_eq!(counts("3"), [Some(3), None, None, None]);
        assert_eq!(counts("1,4(x3)"), [Some(1), Some(4), Some(4), Some(4)]);
        assert_eq!(counts("some"), [None; 4]);
    }
}
