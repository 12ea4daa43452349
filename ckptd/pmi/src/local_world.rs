//! Processes of a generation on this node.

use crate::{Error, Namespace, Server, adopt};
use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use understudy_numbers::Rank;

/// Processes of a generation on this node; the drop kills processes that still run.
#[derive(Debug)]
pub struct LocalWorld {
    processes: BTreeMap<Rank, Child>,
    ended: BTreeMap<Rank, ExitStatus>,
}

impl LocalWorld {
    /// Starts the processes of all ranks of this node.
    ///
    /// `command` returns the command for a rank, with everything except the rank's identity.
    ///
    /// # Errors
    /// Errors of [`Server::identity`]; [`Error::System`] if a process cannot be started. Processes
    /// that were started already are killed.
    pub fn start(
        server: &Server,
        generation: &Namespace,
        mut command: impl FnMut(Rank) -> Command,
    ) -> Result<LocalWorld, Error> {
        let mut world = LocalWorld {
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        for rank in generation.ranks_here() {
            let mut command = command(rank);
            adopt(&mut command, server.identity(&generation.name, rank)?);
            let what = command.get_program().to_string_lossy().into_owned();
            let child = command.spawn().map_err(Error::system(what))?;
            world.processes.insert(rank, child);
        }
        Ok(world)
    }

    /// Returns the process id of a rank that was not found to have ended.
    pub fn pid(&self, rank: Rank) -> Option<u32> {
        self.processes.get(&rank).map(Child::id)
    }

    /// Kills a rank's process with SIGKILL, if it runs.
    pub fn kill(&mut self, rank: Rank) {
        if let Some(child) = self.processes.get_mut(&rank) {
            // An error means that the process has ended by itself.
            let _ = child.kill();
        }
    }

    /// Polls for ended processes; returns the exit statuses of all that have ended.
    pub fn poll(&mut self) -> &BTreeMap<Rank, ExitStatus> {
        let mut ended = Vec::new();
        for (&rank, child) in &mut self.processes {
            if let Ok(Some(status)) = child.try_wait() {
                ended.push((rank, status));
            }
        }
        for (rank, status) in ended {
            self.processes.remove(&rank);
            self.ended.insert(rank, status);
        }
        &self.ended
    }

    /// Waits until all processes have ended, one has failed, or the time is over.
    ///
    /// Returns true if all have ended successfully.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let failed = self.poll().values().any(|status| !status.success());
            if failed || self.processes.is_empty() || Instant::now() >= until {
                return !failed && self.processes.is_empty();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the processes that still run, and collects their exit statuses.
    pub fn end(&mut self) {
        for child in self.processes.values_mut() {
            let _ = child.kill();
        }
        for (rank, mut child) in std::mem::take(&mut self.processes) {
            if let Ok(status) = child.wait() {
                self.ended.insert(rank, status);
            }
        }
    }
}

impl Drop for LocalWorld {
    fn drop(&mut self) {
        self.end();
    }
}
