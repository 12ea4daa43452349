//! The connections of a guardian, opened before it joins its job.

use super::input::Input;
use super::launcher_position::{LauncherPosition, await_manager};
use crate::Error;
use rustix::net::{Shutdown, shutdown};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};
use understudy_sockets::{Poller, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Hello, Line, LineListener, ToGuardian};

/// Time for another guardian to start the manager, or for the manager to disconnect.
const MANAGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The connections of a guardian that has not joined yet.
pub struct GuardianSockets {
    pub poller: Poller,
    pub manager: Source<Line>,
    /// Manager that was started for the connection.
    pub started_manager: Option<Child>,
    /// Socket at which processes register.
    pub listener: Source<LineListener>,
    pub input: Input,
    pub thread_sender: Line,
    /// Receiving end of `thread_sender`.
    pub thread_messages: Source<Line>,
}

impl GuardianSockets {
    /// Connects to the job's manager, and opens the other sockets.
    ///
    /// The manager is started if none is running.
    ///
    /// # Errors
    /// Errors of [`LauncherPosition::connect`] and of system calls.
    pub fn open(position: &mut LauncherPosition) -> Result<GuardianSockets, Error> {
        let (line, started_manager) = position.connect()?;
        let listener = position.listen()?;
        let input = Input::new(position.directory(), position.rank)?;
        let (sender, messages) = Line::pair().map_err(Error::system("a pair of sockets"))?;
        let poller = Poller::new().map_err(Error::system("a poller"))?;
        Ok(GuardianSockets {
            manager: register(&poller, line)?,
            started_manager,
            listener: register(&poller, listener)?,
            input,
            thread_sender: sender,
            thread_messages: register(&poller, messages)?,
            poller,
        })
    }
}

/// Returns a descriptor that is polled for input.
///
/// # Errors
/// Errors of epoll_ctl(2).
pub fn register<T: AsFd>(poller: &Poller, descriptor: T) -> Result<Source<T>, Error> {
    Source::new(poller.registry(), descriptor, Interest::READ).map_err(Error::system("epoll_ctl"))
}

/// Reports to the job's manager that this guardian has failed before it has joined.
///
/// The guardian joins and leaves at once. Otherwise the manager would wait for the guardian until
/// its time limit.
pub fn report_failed_start(position: &LauncherPosition, hello: &Hello) {
    let directory = position.directory();
    if let Ok(line) = await_manager(&directory, MANAGER_TIMEOUT, || !directory.exists()) {
        let _ = line.send(hello);
        leave(&line);
    }
}

/// Ends the connection of a guardian that fails, and waits for the manager.
///
/// A manager that this process has started ends with this process until it has received the first
/// message of a guardian.
pub fn leave(line: &Line) {
    let _ = shutdown(line, Shutdown::Write);
    let until = Instant::now() + MANAGER_TIMEOUT;
    // The manager closes the line.
    while Instant::now() < until && line.receive::<ToGuardian>(MANAGER_TIMEOUT).is_ok() {}
}
