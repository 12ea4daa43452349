//! The processes of a generation on this node.

use crate::{Error, Namespace, Server, adopt};
use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use understudy_numbers::Rank;

/// The processes of a generation on this node. Those that still run when it is dropped are killed.
#[derive(Debug)]
pub struct LocalWorld {
    processes: BTreeMap<Rank, Child>,
    ended: BTreeMap<Rank, ExitStatus>,
}

impl LocalWorld {
    /// Starts the processes of all ranks of this node; `command` makes each, with its output and
    /// whatever it needs besides its identity.
    ///
    /// # Errors
    /// Those of [`Server::identity`]; [`Error::System`] if a process cannot be started. Those that
    /// have been started are killed then.
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

    /// The process of a rank that has not been found to have ended.
    pub fn pid(&self, rank: Rank) -> Option<u32> {
        self.processes.get(&rank).map(Child::id)
    }

    /// Kills a rank's process with SIGKILL, if it runs.
    pub fn kill(&mut self, rank: Rank) {
        if let Some(child) = self.processes.get_mut(&rank) {
            // It has ended by itself otherwise.
            let _ = child.kill();
        }
    }

    /// Looks who has ended; how all have that have.
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

    /// Waits until all have ended, or one of them badly, or time is over. Whether all have ended
    /// well.
    pub fn wait(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        loop {
            let failed = self.poll().values().any(|status| !status.success());
            if failed || self.processes.is_empty() || Instant::now() >= until {
                return !failed && self.processes.is_empty();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends those that still run.
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
