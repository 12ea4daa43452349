//! The allocation of a batch system: its hosts and their slots.

use super::batch_command::output_of;
use super::hosts::{Host, add, hosts_of_list};
use super::slurm;
use super::slurm_lists::expand_hosts;
use crate::Error;
use std::process::Command;

/// Variables that batch systems set for the processes of a job.
///
/// Flux is the first, because its instances run within jobs of other systems.
const VARIABLES: [(&str, BatchSystem); 5] = [
    ("FLUX_ENCLOSING_ID", BatchSystem::Flux),
    ("SLURM_JOB_ID", BatchSystem::Slurm),
    ("PBS_JOBID", BatchSystem::Pbs),
    ("LSB_JOBID", BatchSystem::Lsf),
    ("PE_HOSTFILE", BatchSystem::GridEngine),
];

/// A batch system that has granted hosts to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchSystem {
    Slurm,
    Pbs,
    Lsf,
    GridEngine,
    Flux,
}

impl BatchSystem {
    /// Returns the batch system in whose allocation this process runs.
    pub fn detect() -> Option<BatchSystem> {
        let mut set = VARIABLES
            .iter()
            .filter(|(variable, _)| std::env::var_os(variable).is_some());
        set.next().map(|(_, system)| *system)
    }

    /// Hides the allocation of this process from a command, which then uses this host only.
    pub fn hide_from(command: &mut Command) {
        for (variable, _) in VARIABLES {
            command.env_remove(variable);
        }
    }

    /// Returns the variables that [`BatchSystem::hide_from`] removes, with their values.
    pub(super) fn variables() -> impl Iterator<Item = (&'static str, String)> {
        let value = |(name, _)| Some((name, std::env::var(name).ok()?));
        VARIABLES.into_iter().filter_map(value)
    }

    pub fn name(self) -> &'static str {
        match self {
            BatchSystem::Slurm => "Slurm",
            BatchSystem::Pbs => "PBS",
            BatchSystem::Lsf => "LSF",
            BatchSystem::GridEngine => "Grid Engine",
            BatchSystem::Flux => "Flux",
        }
    }

    /// Returns the hosts of the allocation; none if the batch system has named none.
    ///
    /// # Errors
    /// [`Error::Hosts`] if the list of hosts cannot be read.
    pub fn hosts(self) -> Result<Vec<Host>, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let file = |name: &str, parse: fn(&str) -> Result<Vec<Host>, Error>| {
            let Some(path) = variable(name) else {
                return Ok(Vec::new());
            };
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Error::Hosts(format!("{name}={path}: {error}")))?;
            parse(&text)
        };
        match self {
            BatchSystem::Slurm => slurm::granted_hosts(variable),
            BatchSystem::Pbs => file("PBS_NODEFILE", hosts_of_slots),
            BatchSystem::Lsf => file("LSB_DJOB_HOSTFILE", hosts_of_slots),
            BatchSystem::GridEngine => file("PE_HOSTFILE", hosts_of_queues),
            BatchSystem::Flux => {
                let format = "{nodelist} {nnodes} {ncores}";
                let words = ["resource", "list", "-n", "-s", "all", "-o", format];
                hosts_of_flux(&output_of("flux", &words).map_err(Error::Hosts)?)
            }
        }
    }
}

/// Parses a file with a line for each slot: `$PBS_NODEFILE`, `$LSB_DJOB_HOSTFILE`.
fn hosts_of_slots(text: &str) -> Result<Vec<Host>, Error> {
    let names: Vec<&str> = text.split_whitespace().collect();
    hosts_of_list(&names.join(","))
}

/// Parses the lines `HOST SLOTS QUEUE PROCESSORS` of `$PE_HOSTFILE` (sge_pe(5)).
fn hosts_of_queues(text: &str) -> Result<Vec<Host>, Error> {
    let mut hosts = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let Some(name) = words.next() {
            add(&mut hosts, name, words.next().unwrap_or("1"))?;
        }
    }
    Ok(hosts)
}

/// Parses the answer of Flux: hosts, their number, and the number of all cores.
///
/// All hosts have equally many cores.
fn hosts_of_flux(answer: &str) -> Result<Vec<Host>, Error> {
    let wrong = || Error::Hosts(format!("Flux has answered `{answer}`"));
    let words: Vec<&str> = answer.split_whitespace().collect();
    let [names, nodes, cores] = words[..] else {
        return Err(wrong());
    };
    let number = |word: &str| word.parse::<u32>().map_err(|_| wrong());
    let slots = number(cores)?.checked_div(number(nodes)?);
    let slots = slots.filter(|slots| *slots > 0).ok_or_else(wrong)?;
    let names = expand_hosts(names)?;
    Ok(names.into_iter().map(|name| Host { name, slots }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: u32) -> Host {
        let name = name.into();
        Host { name, slots }
    }

    #[test]
    fn files_of_hosts_are_read() {
        assert_eq!(
            hosts_of_slots("a\na\nb\na\n").expect("good"),
            [host("a", 3), host("b", 1)]
        );
        assert_eq!(
            hosts_of_queues("a 4 all.q@a UNDEFINED\nb 2 all.q@b <NULL>\n").expect("good"),
            [host("a", 4), host("b", 2)]
        );
        assert!(hosts_of_queues("a many all.q@a UNDEFINED\n").is_err());
        assert_eq!(
            hosts_of_flux("n[1-2] 2 16").expect("good"),
            [host("n1", 8), host("n2", 8)]
        );
        assert!(hosts_of_flux("n1 0 0").is_err());
    }
}
