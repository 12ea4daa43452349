//! Placement of ranks on hosts.

use crate::Error;
use crate::generation_name::check_name;
use understudy_numbers::Rank;

/// Placement of ranks on hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    hosts: Vec<String>,
    /// Index in `hosts` of each rank's host.
    host_of_rank: Vec<usize>,
    /// Ranks of each host, in ascending order.
    ranks_of_host: Vec<Vec<Rank>>,
}

impl Placement {
    /// Longest name of a host, in bytes (the limit of gethostname(2)).
    pub const MAX_HOST_NAME_BYTES: usize = 64;

    /// Returns a placement of rank r on `hosts[host_of_rank[r]]`.
    ///
    /// # Errors
    /// [`Error::BadName`] of a host, [`Error::BadPlacement`].
    pub fn new(hosts: Vec<String>, host_of_rank: Vec<usize>) -> Result<Placement, Error> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        for host in &hosts {
            check_name("host", host, Placement::MAX_HOST_NAME_BYTES, is_good)?;
        }
        if host_of_rank.is_empty() {
            return Err(Error::BadPlacement);
        }
        let mut ranks_of_host = vec![Vec::new(); hosts.len()];
        for (rank, &host) in (0..).map(Rank).zip(&host_of_rank) {
            let ranks: &mut Vec<Rank> = ranks_of_host.get_mut(host).ok_or(Error::BadPlacement)?;
            ranks.push(rank);
        }
        Ok(Placement {
            hosts,
            host_of_rank,
            ranks_of_host,
        })
    }

    /// Returns a placement of all `size` ranks on one host.
    ///
    /// # Errors
    /// Errors of [`Placement::new`].
    pub fn on_one(host: &str, size: u32) -> Result<Placement, Error> {
        Placement::new(vec![host.to_owned()], vec![0; size as usize])
    }

    pub fn size(&self) -> u32 {
        self.host_of_rank.len() as u32
    }

    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns every rank with the index of its host.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, usize)> + '_ {
        (0..).map(Rank).zip(self.host_of_rank.iter().copied())
    }

    /// Returns the ranks of a host, in ascending order.
    pub fn ranks_on(&self, host: usize) -> &[Rank] {
        self.ranks_of_host.get(host).map_or(&[], Vec::as_slice)
    }

    /// Returns the hosts that have ranks.
    fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts.len()).filter(|&host| !self.ranks_on(host).is_empty())
    }

    pub fn used_hosts(&self) -> usize {
        self.used().count()
    }

    /// Returns the hosts in the format of PMIX_NODE_MAP, such as `raw:a,b`.
    pub fn node_map(&self) -> String {
        let names: Vec<&str> = self.used().map(|host| self.hosts[host].as_str()).collect();
        format!("raw:{}", names.join(","))
    }

    /// Returns the ranks of each host in the format of PMIX_PROC_MAP, such as `raw:0,1;2,3`.
    pub fn process_map(&self) -> String {
        let lists: Vec<String> = self
            .used()
            .map(|host| comma_separated(self.ranks_on(host).iter().copied()))
            .collect();
        format!("raw:{}", lists.join(";"))
    }

    /// Returns the placement in the format of PMI-1's PMI_process_mapping.
    ///
    /// Each block in `(vector,(0,2,3))` has the first host, the number of hosts, and the number of
    /// ranks on each of these hosts.
    pub fn process_mapping(&self) -> String {
        let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
        for run in self.host_of_rank.chunk_by(|a, b| a == b) {
            match blocks.last_mut() {
                Some((first, hosts, each)) if *first + *hosts == run[0] && *each == run.len() => {
                    *hosts += 1
                }
                _ => blocks.push((run[0], 1, run.len())),
            }
        }
        let blocks: String = blocks
            .iter()
            .map(|(first, hosts, each)| format!(",({first},{hosts},{each})"))
            .collect();
        format!("(vector{blocks})")
    }
}

/// Returns a comma-separated list of ranks, such as `0,2,4`.
pub fn comma_separated(ranks: impl Iterator<Item = Rank>) -> String {
    ranks
        .map(|rank| rank.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;

    fn placement(host_of_rank: &[usize]) -> Placement {
        let hosts = (0..3).map(|host| format!("n{host}")).collect();
        Placement::new(hosts, host_of_rank.to_vec()).unwrap()
    }

    #[test]
    fn placements_have_the_formats_of_pmix_and_pmi() {
        for (host_of_rank, nodes, processes, mapping) in [
            (&[0, 0, 0][..], "raw:n0", "raw:0,1,2", "(vector,(0,1,3))"),
            (
                &[0, 0, 1, 1],
                "raw:n0,n1",
                "raw:0,1;2,3",
                "(vector,(0,2,2))",
            ),
            (
                &[0, 1, 0, 1],
                "raw:n0,n1",
                "raw:0,2;1,3",
                "(vector,(0,2,1),(0,2,1))",
            ),
            (
                &[1, 1, 2],
                "raw:n1,n2",
                "raw:0,1;2",
                "(vector,(1,1,2),(2,1,1))",
            ),
        ] {
            let placement = placement(host_of_rank);
            let given = (
                placement.node_map(),
                placement.process_map(),
                placement.process_mapping(),
            );
            assert_eq!(
                given,
                (nodes.to_owned(), processes.to_owned(), mapping.to_owned())
            );
        }
    }

    /// A search through all ranks for each host or rank would take minutes.
    #[test]
    fn a_placement_on_many_hosts_needs_one_pass() {
        const HOSTS: usize = 200_000;
        let hosts = (0..HOSTS).map(|host| format!("n{host}")).collect();
        let placement = Placement::new(hosts, (0..HOSTS).collect()).unwrap();
        assert_eq!(placement.used_hosts(), HOSTS);
        let separators = placement.process_map().matches(';').count();
        assert_eq!(separators, HOSTS - 1);
        let namespace = Namespace::here("job", 0, "n", HOSTS as u32).unwrap();
        let last = Rank(HOSTS as u32 - 1);
        assert!(
            namespace
                .ranks_here()
                .all(|rank| namespace.local_rank(rank).is_ok())
        );
        assert_eq!(namespace.local_rank(last).unwrap(), HOSTS - 1);
    }

    #[test]
    fn placements_that_make_no_sense_are_refused() {
        assert!(matches!(
            Placement::on_one("a,b", 2),
            Err(Error::BadName { .. })
        ));
        assert!(matches!(
            Placement::on_one("a", 0),
            Err(Error::BadPlacement)
        ));
        assert!(matches!(
            Placement::new(vec!["a".into()], vec![0, 1]),
            Err(Error::BadPlacement)
        ));
    }
}
