//! Command that starts commands on other hosts.

use super::allocation::BatchSystem;
use crate::Error;

/// Name of the agent that fits the batch system.
const AUTO: &str = "auto";
/// Words of the agent outside of a batch system.
const SSH: [&str; 2] = ["ssh", "-x"];

/// Command that starts commands on other hosts.
///
/// The name of the host and the command are added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Agent {
    /// A command of the user, in words.
    Command(Vec<String>),
    /// The agent of the batch system that has granted hosts, or ssh.
    Auto,
}

impl Agent {
    /// Returns the words of the command.
    pub fn words(&self) -> Vec<String> {
        let words = match self {
            Agent::Command(words) => return words.clone(),
            Agent::Auto => match BatchSystem::detect() {
                // The scripts are executed from here, so that they exist in every installation.
                Some(system) => vec!["/bin/sh", "-c", script(system), "agent"],
                None => SSH.to_vec(),
            },
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Returns an agent that works in a process from which the allocation is hidden.
    pub fn within_allocation(&self) -> Agent {
        let variables = BatchSystem::variables();
        let assignments = variables.map(|(name, value)| format!("{name}={value}"));
        let words = ["/usr/bin/env".to_owned()].into_iter().chain(assignments);
        Agent::Command(words.chain(self.words()).collect())
    }
}

/// Returns the script that starts commands on hosts of an allocation.
fn script(system: BatchSystem) -> &'static str {
    match system {
        BatchSystem::Slurm => include_str!("../../../../packaging/agents/slurm"),
        BatchSystem::Pbs => include_str!("../../../../packaging/agents/pbs"),
        BatchSystem::Lsf => include_str!("../../../../packaging/agents/lsf"),
        BatchSystem::GridEngine => include_str!("../../../../packaging/agents/gridengine"),
        BatchSystem::Flux => include_str!("../../../../packaging/agents/flux"),
    }
}

impl std::str::FromStr for Agent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Agent, Error> {
        if text == AUTO {
            return Ok(Agent::Auto);
        }
        let words = shell_words::split(text)
            .map_err(|error| Error::Hosts(format!("--agent {text}: {error}")))?;
        Ok(Agent::Command(words))
    }
}

/// Shows the value of `--agent`.
impl std::fmt::Display for Agent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Agent::Auto => formatter.write_str(AUTO),
            Agent::Command(words) => formatter.write_str(&shell_words::join(words)),
        }
    }
}
