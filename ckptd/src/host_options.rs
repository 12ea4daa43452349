//! Options that name the hosts of a job.

use std::path::PathBuf;
use understudy_launch::Error;
use understudy_launch::starter::{Agent, Host, hosts_of_file, hosts_of_list};

/// Hosts of a job, and the command that starts processes there.
#[derive(clap::Args)]
pub struct HostOptions {
    /// Hosts with slots, as for mpirun: `a:4,b:4` has four slots on each of two hosts. Workers are
    /// placed first, then spares.
    #[arg(long, value_name = "HOSTS")]
    pub host: Vec<String>,
    /// File with hosts and slots, one host in each line, such as `a slots=4`.
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    pub hostfile: Option<PathBuf>,
    /// Command that starts processes on a host. The host's name and a command follow. `auto` is the
    /// one of the batch system that has granted hosts, such as a step of Slurm, or else `ssh -x`.
    #[arg(long, value_name = "COMMAND", default_value = "auto")]
    agent: String,
}

impl HostOptions {
    /// Returns the hosts; none for this host alone.
    ///
    /// # Errors
    /// Fails with [`Error::Hosts`], or if the host file cannot be read.
    pub fn hosts(&self) -> Result<Vec<Host>, Error> {
        match &self.hostfile {
            Some(file) => hosts_of_file(file),
            None => hosts_of_list(&self.host.join(",")),
        }
    }

    /// Returns the agent.
    ///
    /// # Errors
    /// Fails with [`Error::Hosts`] for an unmatched quote.
    pub fn agent(&self) -> Result<Agent, Error> {
        self.agent.parse()
    }

    /// True if no host is named.
    pub fn is_empty(&self) -> bool {
        self.host.is_empty() && self.hostfile.is_none()
    }
}
