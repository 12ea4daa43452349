//! Nodes of the processes, and their failure domains (`UNDERSTUDY_DOMAIN`).
#![allow(unsafe_code)]

use crate::{process_info, user};
use std::collections::HashMap;
use std::path::Path;
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_mpi::plain::Plain;
use understudy_mpi::real_types::RealComm;
use understudy_settings::domains::domain_of_host;
use xxhash_rust::xxh3::xxh3_64;

/// Domain of a process that could not read the file of domains.
const UNKNOWN_DOMAIN: u64 = 0;

/// Room for a host name with a terminating zero (HOST_NAME_MAX of Linux is 64).
const HOST_NAME_CAPACITY: usize = 72;

/// Node, PID, failure domain and host of one process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcessLocation {
    /// Hash of the node.
    ///
    /// Processes with an equal hash can access each other by their PIDs.
    pub node: u64,
    /// PID on the node.
    pub pid: u64,
    /// Failure domain, or `UNKNOWN_DOMAIN`.
    pub domain: u64,
    /// Host name, padded with zeros.
    host: [u8; HOST_NAME_CAPACITY],
}

// SAFETY: numbers and bytes, without padding.
unsafe impl Plain for ProcessLocation {}

impl ProcessLocation {
    /// Returns the name of the host.
    pub fn host_name(&self) -> String {
        String::from_utf8_lossy(self.host.split(|byte| *byte == 0).next().unwrap_or(&[]))
            .into_owned()
    }
}

/// Places of all processes, by rank in a world of the MPI library.
pub struct ProcessLocations {
    all: Vec<ProcessLocation>,
}

impl ProcessLocations {
    pub fn all(&self) -> &[ProcessLocation] {
        &self.all
    }

    /// Returns the number of processes on the node with the most processes.
    pub fn most_per_node(&self) -> u32 {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for place in &self.all {
            *counts.entry(place.node).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(1)
    }

    /// True if there is more than one node.
    pub fn has_several_nodes(&self) -> bool {
        self.all.iter().any(|place| place.node != self.all[0].node)
    }

    /// True if the first `count` ranks are on one node.
    pub fn are_on_one_node(&self, count: u32) -> bool {
        let mut places = self.all.iter().take(count as usize);
        places.all(|place| place.node == self.all[0].node)
    }

    /// Returns the domains of the first `count` ranks, numbered in order of appearance.
    pub fn domains(&self, count: u32) -> Vec<u32> {
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        let mut number = |domain: u64| {
            let next = numbers.len() as u32;
            *numbers.entry(domain).or_insert(next)
        };
        self.all
            .iter()
            .take(count as usize)
            .map(|place| number(place.domain))
            .collect()
    }

    /// Returns the first rank that could not read the file of domains.
    pub fn without_domain(&self) -> Option<usize> {
        self.all
            .iter()
            .position(|place| place.domain == UNKNOWN_DOMAIN)
    }
}

/// Gathers the places of all processes. Collective over a world.
///
/// # Errors
/// Fails if the real procedure fails.
pub fn gather_locations(world: RealComm) -> mpi::Result<ProcessLocations> {
    let all = world.gather(&[own_location()])?;
    Ok(ProcessLocations { all })
}

/// Returns the place of this process.
pub fn own_location() -> ProcessLocation {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let host = user::host_name();
    // Different nodes may have one host name, so the hash includes the boot identifier. Containers
    // of one node do not see each other's processes, so the hash includes the pid namespace, and
    // the containers count as different nodes.
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let machine = format!("{host} {}", text("/proc/sys/kernel/random/boot_id"));
    let node = format!("{machine} {}", space.display());
    let domain = match &process_info::config().domains {
        None => Some(xxh3_64(machine.as_bytes())),
        Some(file) => domain_of(file, &host).map(|domain| xxh3_64(domain.as_bytes())),
    };
    let mut name = [0; HOST_NAME_CAPACITY];
    for (to, from) in name[..HOST_NAME_CAPACITY - 1].iter_mut().zip(host.bytes()) {
        *to = from;
    }
    ProcessLocation {
        node: xxh3_64(node.as_bytes()),
        pid: u64::from(std::process::id()),
        domain: domain.unwrap_or(UNKNOWN_DOMAIN),
        host: name,
    }
}

/// Returns the domain of a host by the file of domains.
///
/// A host that the file does not contain is a domain by itself. `None` if the file cannot be read.
fn domain_of(file: &Path, host: &str) -> Option<String> {
    match domain_of_host(file, host) {
        Ok(domain) => Some(domain.map_or_else(
            || format!("host {host}"),
            |domain| format!("domain {domain}"),
        )),
        Err(why) => {
            log::warn!("{}", message::domain_file_bad(file.display(), why));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(nodes_and_domains: &[(u64, u64)]) -> ProcessLocations {
        let all = nodes_and_domains
            .iter()
            .map(|&(node, domain)| ProcessLocation {
                node,
                pid: 1,
                domain,
                host: [0; HOST_NAME_CAPACITY],
            });
        ProcessLocations { all: all.collect() }
    }

    #[test]
    fn domains_are_numbered_and_nodes_counted() {
        let places = places(&[(7, 70), (7, 70), (3, 30), (3, 70), (3, 30)]);
        assert_eq!(places.domains(4), [0, 0, 1, 0]);
        assert_eq!(places.most_per_node(), 3);
        assert!(places.has_several_nodes());
        assert_eq!(places.without_domain(), None);
    }

    /// A search through all nodes for each process would take minutes.
    #[test]
    fn a_job_of_many_nodes_needs_one_pass() {
        const NODES: u32 = 400_000;
        let all: Vec<(u64, u64)> = (0..u64::from(NODES)).map(|node| (node, node)).collect();
        let places = places(&all);
        assert_eq!(places.most_per_node(), 1);
        assert!(places.domains(NODES).into_iter().eq(0..NODES));
    }
}
