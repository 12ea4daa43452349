//! Failure domains from the network of a batch system.
//!
//! Hosts of one leaf switch fail together.

use crate::outcome::Failure;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use understudy_catalogue::message;
use understudy_launch::starter::{BatchSystem, Host, RankOrder, assign_ranks, leaf_switches};

/// Setting with the file of failure domains.
pub const DOMAIN: &str = "UNDERSTUDY_DOMAIN";
/// Name of the file of failure domains in the directory of event files.
const FILE: &str = "domains";

/// Ranks of the hosts of one leaf switch.
#[derive(Default)]
struct SwitchRanks {
    workers: u32,
    spares: u32,
}

/// Leaf switches of a job's hosts.
pub struct Switches {
    /// Hosts, each with its switch.
    hosts: Vec<(String, String)>,
    ranks: BTreeMap<String, SwitchRanks>,
}

impl Switches {
    /// Queries the batch system for the switches of hosts.
    ///
    /// `None` if the switches are not known, or if all hosts are on one switch.
    pub fn of(hosts: &[Host], ranks: (u32, u32)) -> Option<Switches> {
        let is_asked = hosts.len() > 1 && BatchSystem::detect() == Some(BatchSystem::Slurm);
        Switches::with(is_asked.then(leaf_switches)?, hosts, ranks)
    }

    fn with(
        switches: BTreeMap<String, String>,
        hosts: &[Host],
        (workers, spares): (u32, u32),
    ) -> Option<Switches> {
        let mut found = Switches {
            hosts: Vec::new(),
            ranks: BTreeMap::new(),
        };
        let ranks = assign_ranks(hosts, workers + spares, RankOrder::Slot).ok()?;
        for (host, ranks) in hosts.iter().zip(ranks) {
            let switch = switches.get(&host.name)?;
            found.hosts.push((host.name.clone(), switch.clone()));
            let count = found.ranks.entry(switch.clone()).or_default();
            for rank in ranks {
                match rank.0 < workers {
                    true => count.workers += 1,
                    false => count.spares += 1,
                }
            }
        }
        (found.ranks.len() > 1).then_some(found)
    }

    /// True if every worker can have its replica on another switch.
    ///
    /// Otherwise each host remains a failure domain: a switch with more than half of the workers
    /// must store replicas of its own workers, and then on other hosts.
    fn can_be_domains(&self) -> bool {
        let workers: u32 = self.ranks.values().map(|ranks| ranks.workers).sum();
        let mut switches = self.ranks.values();
        switches.all(|ranks| ranks.workers * 2 <= workers)
    }

    /// Returns a message if one switch has all spares, beside workers.
    pub fn hazard(&self) -> Option<String> {
        let mut with_spares = self.ranks.iter().filter(|(_, ranks)| ranks.spares > 0);
        match (with_spares.next(), with_spares.next()) {
            (Some((switch, ranks)), None) if ranks.workers > 0 => {
                Some(message::spares_on_one_switch(switch).to_string())
            }
            _ => None,
        }
    }

    /// Writes the file of failure domains beside the event files, which all hosts share.
    ///
    /// Returns the value of `UNDERSTUDY_DOMAIN`; `None` if hosts are the better domains.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub fn write(&self, directory: &Path, is_dry: bool) -> Result<Option<OsString>, Failure> {
        if !self.can_be_domains() {
            return Ok(None);
        }
        let line = |(host, switch): &(String, String)| format!("{host} {switch}\n");
        let file = directory.join(FILE);
        if !is_dry {
            std::fs::write(&file, self.hosts.iter().map(line).collect::<String>())?;
        }
        Ok(Some(file.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the switches of four hosts with two slots each.
    fn switches(names: [&str; 4], ranks: (u32, u32)) -> Option<Switches> {
        let name = |index| format!("n{index}");
        let hosts: Vec<Host> = (0..4)
            .map(|index| Host {
                name: name(index),
                slots: 2,
            })
            .collect();
        let known = names
            .iter()
            .enumerate()
            .filter(|(_, switch)| !switch.is_empty());
        let known = known.map(|(index, switch)| (name(index), (*switch).to_owned()));
        Switches::with(known.collect(), &hosts, ranks)
    }

    #[test]
    fn domains_are_switches_without_most_workers() {
        let can = |names, ranks| switches(names, ranks).map(|it| it.can_be_domains());
        assert_eq!(can(["s1", "s1", "s2", "s2"], (8, 0)), Some(true));
        assert_eq!(can(["s1", "s1", "s2", "s2"], (6, 2)), Some(false));
        assert_eq!(can(["s1", "s1", "s1", "s1"], (8, 0)), None, "one switch");
        assert_eq!(can(["s1", "s1", "s2", ""], (8, 0)), None, "an unknown one");
    }

    #[test]
    fn spares_beside_workers_of_one_switch_are_a_hazard() {
        let hazard = |names, ranks| switches(names, ranks).expect("two").hazard();
        let message = hazard(["s1", "s1", "s2", "s2"], (6, 2)).expect("a hazard");
        assert!(message.contains("s2"), "{message}");
        assert_eq!(
            hazard(["s1", "s1", "s1", "s2"], (6, 2)),
            None,
            "no workers there"
        );
        assert_eq!(
            hazard(["s1", "s1", "s2", "s3"], (5, 3)),
            None,
            "two switches"
        );
    }
}
