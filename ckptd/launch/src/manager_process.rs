//! The process of a manager: its start, and its inherited socket.
#![allow(unsafe_code)]

use crate::Error;
use crate::job_directory::locked;
use crate::messages::{LeaderToStarter, ManagerDuty, Messages, write_message};
use crate::process_context::{ProcessContext, own_program};
use crate::tied_child::tie_to;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, set_parent_process_death_signal, setsid};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use understudy_formats::private_directories::{self, PrivateDirectory};
use understudy_pmi::is_of_a_launcher;
use understudy_wire::line::{Line, LineListener, LineSocket};

/// Starts this node's manager of a job on several nodes.
///
/// Guardians connect to the manager afterwards.
///
/// The manager receives its duty by standard input; its standard output is a pipe. Without a
/// context the manager has the executable, the environment and the standard error of this process.
///
/// # Errors
/// Errors of [`locked`] and [`start_manager`]; [`Error::SameHost`].
pub fn start_with_duty(
    job: &str,
    duty: &ManagerDuty,
    context: Option<ProcessContext<'_>>,
) -> Result<Child, Error> {
    let (directory, _lock) = locked(job)?;
    let path = directory.path().to_owned();
    if Line::connect(&path, LineSocket::Manager).is_ok() {
        return Err(Error::SameHost);
    }
    let mut manager = start_manager(&directory, &path, Some(context), None)?;
    if let Some(input) = &mut manager.stdin {
        write_message(input, duty).map_err(Error::system("the node manager"))?;
    }
    Ok(manager)
}

/// Returns the port at which a new leader listens.
///
/// # Errors
/// [`Error::NoManager`].
pub fn port_of(leader: &mut Child) -> Result<u16, Error> {
    let output = leader.stdout.as_mut().ok_or(Error::NoManager)?;
    let LeaderToStarter::Port(port) = Messages::new(output).next().map_err(|_| Error::NoManager)?
    else {
        return Err(Error::NoManager);
    };
    Ok(port)
}

/// Takes a descriptor that this process, a new manager, has inherited.
///
/// Programs that this process executes do not inherit the descriptor.
pub fn inherited(descriptor: RawFd) -> OwnedFd {
    // SAFETY: `start_manager` has left the descriptor open for this process, which is its only
    // owner.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // The call fails for descriptors that are not open only.
    let _ = fcntl_setfd(&descriptor, FdFlags::CLOEXEC);
    descriptor
}

/// State that a guardian keeps for a manager that replaces the one of its node.
#[derive(Debug)]
pub struct Succession {
    duty: Vec<u8>,
    keeper: OwnedFd,
    /// Connection of the present manager to the leader, which must not end before the node.
    _link: OwnedFd,
}

impl Succession {
    /// Takes the descriptors that come with the duty of a manager ([`ToGuardian::Joined`]).
    ///
    /// Returns `None` if descriptors are missing.
    pub fn new(duty: Vec<u8>, files: &mut impl Iterator<Item = OwnedFd>) -> Option<Succession> {
        let (link, keeper) = (files.next()?, files.next()?);
        Some(Succession {
            duty,
            keeper,
            _link: link,
        })
    }

    /// Starts a manager in a job's directory.
    ///
    /// # Errors
    /// Errors of [`start_manager`] and of the pipe to the manager.
    pub fn start(&self, directory: &PrivateDirectory, path: &Path) -> Result<Child, Error> {
        let mut manager = start_manager(directory, path, Some(None), Some(&self.keeper))?;
        if let Some(input) = &mut manager.stdin {
            let written = input.write_all(&self.duty).and_then(|()| input.flush());
            written.map_err(Error::system("the node manager"))?;
        }
        Ok(manager)
    }
}

/// Starts a manager that listens in a job's directory, in a session of its own.
///
/// `duty` is `None` for the manager of a job on one node. Otherwise the manager receives a duty by
/// a pipe, and runs in the given context; `Some(None)` is the context of this process. `keeper` is
/// the pipe to the keeper of the node's fence, if an earlier manager has started it.
///
/// # Errors
/// Errors of the socket and of the start of a process.
pub fn start_manager(
    directory: &PrivateDirectory,
    path: &Path,
    duty: Option<Option<ProcessContext<'_>>>,
    keeper: Option<&OwnedFd>,
) -> Result<Child, Error> {
    let failed = || Error::system("the node manager's socket");
    let listener = LineListener::new(directory, LineSocket::Manager).map_err(failed())?;
    let descriptor = listener.as_fd().try_clone_to_owned().map_err(failed())?;
    let keeper = keeper.map(OwnedFd::try_clone).transpose();
    let keeper = keeper.map_err(failed())?;
    let context = duty.flatten();
    let ckptd = context.map_or_else(own_program, |context| Ok(context.ckptd.to_owned()))?;
    let mut command = Command::new(ckptd);
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
    if let Some(keeper) = &keeper {
        command.arg("--keeper").arg(keeper.as_raw_fd().to_string());
    }
    if let Some(context) = context {
        let [_, stderr] = context.streams.for_command().map_err(failed())?;
        command.stderr(stderr);
        context.environment.give_to(&mut command);
    }
    command.env_remove("LD_PRELOAD");
    command.envs(private_directories::runtime_variable());
    // The manager's servers would mistake these variables for those of their own launcher.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
        command.env_remove(name);
    }
    let (is_alone, parent) = (duty.is_none(), getpid());
    let prepare = move || {
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        if let Some(keeper) = &keeper {
            fcntl_setfd(keeper, FdFlags::empty())?;
        }
        setsid()?;
        // A manager without a duty dies with its parent until a guardian has joined (`NodeState`).
        // A manager with a duty ends with its standard input.
        match is_alone {
            true => tie_to(parent, Signal::KILL),
            false => Ok(set_parent_process_death_signal(None)?),
        }
    };
    // SAFETY: `prepare` makes only system calls, which are allowed between fork and exec.
    let command = unsafe { command.pre_exec(prepare) };
    command.spawn().map_err(Error::system("the node manager"))
}
