//! The fence of a node: kernel timers that kill its processes without the leader's answers.

use crate::Error;
use crate::fence_keeper::{STOP, encode_deadline};
use crate::fence_tie::FenceTie;
use crate::process_context::own_program;
use crate::tied_child::die_with_parent;
use rustix::io::ioctl_fionbio;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

/// The fence of a node, with the connection to its [keeper](crate::fence_keeper).
///
/// The fields are dropped in order: this process must not be tied to a fence that it ends itself.
pub struct NodeFence {
    _tie: Option<FenceTie>,
    deadlines: ChildStdin,
    /// Deadline that the keeper has; `None` if the timer is stopped.
    deadline: Option<Duration>,
}

impl NodeFence {
    /// Starts the keeper, which the kernel kills at `deadline` (CLOCK_BOOTTIME).
    ///
    /// The kernel also kills the keeper when this process dies.
    ///
    /// # Errors
    /// Errors of starting the keeper, and errors that the keeper has printed.
    pub fn start(directory: &Path, deadline: Duration) -> Result<NodeFence, Error> {
        let failed = || Error::system("the fence of the node");
        let mut command = Command::new(own_program()?);
        command.arg("fence").arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut keeper = command.spawn().map_err(failed())?;
        let (Some(mut deadlines), Some(mut ready)) = (keeper.stdin.take(), keeper.stdout.take())
        else {
            return Err(Error::NoManager);
        };
        deadlines
            .write_all(&encode_deadline(deadline))
            .and_then(|()| ready.read_exact(&mut [0; 1]))
            .map_err(failed())?;
        // A keeper that is stopped must not stop this process.
        ioctl_fionbio(&deadlines, true).map_err(|errno| failed()(errno.into()))?;
        Ok(NodeFence {
            _tie: FenceTie::of_this_process(directory).map_err(failed())?,
            deadlines,
            deadline: Some(deadline),
        })
    }

    /// Sets a later deadline.
    pub fn extend(&mut self, deadline: Duration) {
        if self.deadline.is_some_and(|before| before < deadline) {
            self.send(deadline);
            self.deadline = Some(deadline);
        }
    }

    /// Stops the timer; the processes still die with this process.
    pub fn stop(&mut self) {
        if self.deadline.take().is_some() {
            self.send(STOP);
        }
    }

    fn send(&mut self, deadline: Duration) {
        // If the keeper has died, this process is killed.
        let _ = self.deadlines.write_all(&encode_deadline(deadline));
    }
}
