//! Hosts of the jobs: where their workers are, and which host is lost.

use crate::outcome::{Failure, IMPOSSIBLE, USAGE};
use ckptd::host_options::HostOptions;
use std::process::Command;
use understudy_launch::starter::{Agent, BatchSystem, is_this_host};
use understudy_report::count;

/// Workers on each of several hosts.
const WORKERS_PER_HOST: u32 = 2;
/// Workers of a job on one host.
const WORKERS_ON_ONE_HOST: u32 = 4;
/// Spares, on the last host.
pub const SPARES: u32 = 1;

/// Placement of the jobs' processes.
pub struct Placement {
    /// Names of the hosts; empty for this host alone.
    hosts: Vec<String>,
    pub workers: u32,
    pub agent: Agent,
}

impl Placement {
    /// Returns the placement on named or granted hosts.
    ///
    /// # Errors
    /// Fails if the hosts cannot be read.
    pub fn of(options: &HostOptions) -> Result<Self, Failure> {
        let agent = options
            .agent()
            .map_err(|error| Failure::with_status(USAGE, error))?;
        let hosts = match (options.is_empty(), BatchSystem::detect()) {
            (false, _) => options
                .hosts()
                .map_err(|error| Failure::with_status(USAGE, error))?,
            (true, Some(system)) => system.hosts().map_err(|error| {
                let text = format!("{error}. Name the hosts with --host.");
                Failure::with_status(IMPOSSIBLE, text)
            })?,
            (true, None) => Vec::new(),
        };
        let hosts = hosts.into_iter().map(|host| host.name).collect();
        Ok(Self::on(hosts, agent))
    }

    fn on(mut hosts: Vec<String>, agent: Agent) -> Self {
        if hosts.iter().all(|name| is_this_host(name)) {
            hosts.clear();
        }
        let workers = match hosts.len() {
            0 | 1 => WORKERS_ON_ONE_HOST,
            several => WORKERS_PER_HOST * several as u32,
        };
        Self {
            hosts,
            workers,
            agent,
        }
    }

    pub fn host_names(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// Describes the processes of each job.
    pub fn described(&self) -> String {
        let processes = format!(
            "{} and {}",
            count(self.workers, "worker", "workers"),
            count(SPARES, "spare", "spares")
        );
        match self.hosts.is_empty() {
            true => format!("{processes} on this host"),
            false => format!("{processes} on {}", self.hosts.join(", ")),
        }
    }

    /// Returns a host whose processes may be killed, or the reason why there is none.
    ///
    /// This host has the launcher of the jobs, and the first one has worker 0.
    pub fn lost_host(&self) -> Result<&str, String> {
        let mut others = self.hosts.iter().skip(1);
        let lost = others.find(|name| !is_this_host(name));
        lost.map(String::as_str).ok_or_else(|| {
            "it needs two hosts or more, and runs on the first one: run the acceptance in an \
             allocation of several nodes, or name hosts with --host"
                .into()
        })
    }

    /// Adds the options of `understudy run` for this placement.
    ///
    /// The job does not see the batch system, which would lose a node whose processes are killed.
    pub fn add_to(&self, command: &mut Command) {
        command.args(["-n", &self.workers.to_string()]);
        command.args(["--spares", &SPARES.to_string()]);
        if !self.hosts.is_empty() {
            let agent = self.agent.within_allocation();
            command.args(["--host", &self.hosts_with_slots()]);
            command.args(["--agent", &agent.to_string()]);
        }
        BatchSystem::hide_from(command);
    }

    fn hosts_with_slots(&self) -> String {
        let per_host = self.workers / self.hosts.len().max(1) as u32;
        let list = self.hosts.iter().map(|name| format!("{name}:{per_host}"));
        let mut list: Vec<String> = list.collect();
        if let Some(last) = list.last_mut() {
            // A host that is named twice has the sum of the slots.
            *last = format!("{last},{}:{SPARES}", self.hosts[self.hosts.len() - 1]);
        }
        list.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_spread_and_the_first_host_is_kept() {
        let on = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            Placement::on(names, Agent::Auto)
        };
        let three = on(&["a", "b", "c"]);
        assert_eq!(three.workers, 6);
        assert_eq!(three.hosts_with_slots(), "a:2,b:2,c:2,c:1");
        assert_eq!(three.lost_host(), Ok("b"));
        assert_eq!(on(&["a"]).hosts_with_slots(), "a:4,a:1");
        assert!(on(&["a"]).lost_host().is_err());
        assert!(on(&["localhost"]).host_names().is_empty());
        assert!(on(&["a", "localhost"]).lost_host().is_err());
    }
}
