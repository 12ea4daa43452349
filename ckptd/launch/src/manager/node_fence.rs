//! The fence of a node: kernel timers that kill its processes without the leader's answers.

use crate::Error;
use crate::fence_keeper::{STOP, encode_deadline};
use crate::fence_tie::FenceTie;
use crate::process_context::own_program;
use rustix::io::ioctl_fionbio;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The fence of a node, with the connection to its [keeper](crate::fence_keeper).
///
/// The fields are dropped in order: this process must not be tied to a fence that it ends itself.
pub struct NodeFence {
    _tie: Option<FenceTie>,
    /// Pipe to the keeper, which lives until the last writer of the pipe has ended.
    deadlines: File,
    /// Deadline that the keeper has; `None` if the timer is stopped.
    deadline: Option<Duration>,
}

impl NodeFence {
    /// Starts the keeper, which the kernel kills at `deadline` (CLOCK_BOOTTIME).
    ///
    /// # Errors
    /// Errors of starting the keeper, and errors that the keeper has printed.
    pub fn start(directory: &Path, deadline: Duration) -> Result<NodeFence, Error> {
        let failed = || Error::system("the fence of the node");
        let mut command = Command::new(own_program()?);
        command.arg("fence").arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().map_err(failed())?;
        let (Some(deadlines), Some(mut ready)) = (keeper.stdin.take(), keeper.stdout.take()) else {
            return Err(Error::NoManager);
        };
        let mut deadlines = File::from(OwnedFd::from(deadlines));
        deadlines
            .write_all(&encode_deadline(deadline))
            .and_then(|()| ready.read_exact(&mut [0; 1]))
            .map_err(failed())?;
        // A keeper that is stopped must not stop this process.
        ioctl_fionbio(&deadlines, true).map_err(|errno| failed()(errno.into()))?;
        NodeFence::of_keeper(directory, deadlines.into(), deadline)
    }

    /// Returns the fence whose keeper reads from this pipe, and sets its deadline.
    ///
    /// # Errors
    /// Errors of [`FenceTie::of_this_process`].
    pub fn of_keeper(
        directory: &Path,
        keeper: OwnedFd,
        deadline: Duration,
    ) -> Result<NodeFence, Error> {
        let tie = FenceTie::of_this_process(directory);
        let mut fence = NodeFence {
            _tie: tie.map_err(Error::system("the fence of the node"))?,
            deadlines: keeper.into(),
            deadline: Some(deadline),
        };
        fence.send(deadline);
        Ok(fence)
    }

    /// Returns the pipe to the keeper.
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.deadlines.as_fd()
    }

    /// Sets a later deadline.
    pub fn extend(&mut self, deadline: Duration) {
        if self.deadline.is_some_and(|before| before < deadline) {
            self.send(deadline);
            self.deadline = Some(deadline);
        }
    }

    /// Stops the timer.
    ///
    /// The fence then ends with the last writer of the pipe to its keeper.
    pub fn stop(&mut self) {
        if self.deadline.take().is_some() {
            self.send(STOP);
        }
    }

    fn send(&mut self, deadline: Duration) {
        // The kernel kills this process if the keeper has died.
        let _ = self.deadlines.write_all(&encode_deadline(deadline));
    }
}
