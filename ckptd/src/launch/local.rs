//! Starts the processes of a generation on this node, and waits for them.
#![allow(unsafe_code)]

use super::{Error, Identity, Manager, Namespace};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use understudy_numbers::Rank;

/// Variables of the launcher that has started this process, of which its ranks must not hear; those of MCA are settings.
const OF_LAUNCHERS: [&str; 10] = [
    "PMIX_",
    "PMI_",
    "PMI2_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "PRTE_",
    "HYDRA_",
    // Open MPI 4's mpirun sets these, which are no user's.
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
    "OMPI_MCA_pmix",
];

/// Whether a rank must not inherit a variable.
pub(super) fn is_of_a_launcher(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_setting = name.starts_with(b"PMIX_MCA_") || name.starts_with(b"PRTE_MCA_");
    !is_setting
        && OF_LAUNCHERS
            .iter()
            .any(|start| name.starts_with(start.as_bytes()))
}

/// Makes the process that `command` starts a rank, by its environment and the descriptor that it needs.
pub fn adopt(command: &mut Command, identity: Identity) {
    let explicit: BTreeMap<OsString, Option<OsString>> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)))
        .collect();
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
        command.env_remove(name);
    }
    for (name, value) in identity.defaults {
        let is_set = match explicit.get(&name) {
            Some(value) => value.is_some(),
            None => std::env::var_os(&name).is_some() && !is_of_a_launcher(&name),
        };
        if !is_set {
            command.env(name, value);
        }
    }
    command.envs(identity.variables);
    if let Some(descriptor) = identity.descriptor {
        // SAFETY: between fork and exec only one system call is made.
        unsafe {
            command.pre_exec(move || Ok(fcntl_setfd(&descriptor, FdFlags::empty())?));
        }
    }
}

/// The processes of a generation on this node. Those that still run when it is dropped are killed.
#[derive(Debug)]
pub struct World {
    processes: BTreeMap<Rank, Child>,
    ended: BTreeMap<Rank, ExitStatus>,
}

impl World {
    /// Starts the processes of all ranks of this node; `command` makes each, with its output and whatever it needs besides its identity.
    ///
    /// # Errors
    /// Those of [`Manager::identity`]; [`Error::System`] if a process cannot be started. Those that have been started are killed then.
    pub fn start(
        manager: &Manager,
        generation: &Namespace,
        mut command: impl FnMut(Rank) -> Command,
    ) -> Result<World, Error> {
        let mut world = World {
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        for rank in generation.ranks_here() {
            let mut command = command(rank);
            adopt(&mut command, manager.identity(&generation.name, rank)?);
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

    /// Waits until all have ended, or one of them badly, or time is over. Whether all have ended well.
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

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(command: &Command, name: &str) -> Option<OsString> {
        let found = command.get_envs().find(|(of, _)| *of == name);
        found.and_then(|(_, value)| value.map(OsStr::to_owned))
    }

    #[test]
    fn defaults_give_way_to_what_is_set() {
        let mut command = Command::new("true");
        command.env("A", "user's");
        let identity = Identity {
            variables: vec![("V".into(), "1".into())],
            defaults: vec![("A".into(), "ours".into()), ("B".into(), "ours".into())],
            descriptor: None,
        };
        adopt(&mut command, identity);
        assert_eq!(variable(&command, "A"), Some("user's".into()));
        assert_eq!(variable(&command, "B"), Some("ours".into()));
        assert_eq!(variable(&command, "V"), Some("1".into()));
    }

    #[test]
    fn other_launchers_variables_are_known() {
        for (name, expected) in [
            ("PMIX_RANK", true),
            ("PMI_FD", true),
            ("OMPI_COMM_WORLD_RANK", true),
            ("PMIX_MCA_gds", false),
            ("OMPI_MCA_btl", false),
            ("PATH", false),
        ] {
            assert_eq!(is_of_a_launcher(OsStr::new(name)), expected, "{name}");
        }
    }
}
