//! One MPI_COMM_WORLD: its name, its ranks, and where they are.

use super::Error;
use bincode::{Decode, Encode};
use std::borrow::Borrow;
use std::fmt;
use understudy_numbers::Rank;

/// What no other generation of any job on these nodes is called: MPI libraries name shared memory after it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Name(String);

impl Name {
    /// Longest name of a job, in bytes: MPICH takes at most 256 for all of a key space's name.
    pub const LONGEST_JOB: usize = 64;

    /// Generation `number` of a job. `job` has letters, digits, '-', '_' and '.'.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn new(job: &str, number: u32) -> Result<Name, Error> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        check("job", job, Name::LONGEST_JOB, is_good)?;
        Ok(Name(format!("{job}.{number}")))
    }

    /// The namespace of processes that a rank of this one has asked for, on this host of the job's; a host does not give numbers twice.
    pub fn child(&self, host: usize, number: u32) -> Name {
        Name(format!("{self}.{host}-{number}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that may stand in PMIx's and PMI's lists.
fn check(
    what: &'static str,
    name: &str,
    most: usize,
    is_good: impl Fn(char) -> bool,
) -> Result<(), Error> {
    let leads_away = name.starts_with('.');
    if name.is_empty() || name.len() > most || leads_away || !name.chars().all(is_good) {
        let name = name.chars().take(most).collect();
        return Err(Error::BadName { what, name, most });
    }
    Ok(())
}

/// Which rank is on which host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    hosts: Vec<String>,
    /// For each rank, where in `hosts`.
    of_rank: Vec<usize>,
}

impl Placement {
    /// Longest name of a host, in bytes (gethostname(2) gives no longer ones).
    pub const LONGEST_HOST: usize = 64;

    /// Rank r is on `hosts[of_rank[r]]`.
    ///
    /// # Errors
    /// [`Error::BadName`] of a host, [`Error::BadPlacement`].
    pub fn new(hosts: Vec<String>, of_rank: Vec<usize>) -> Result<Placement, Error> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        for host in &hosts {
            check("host", host, Placement::LONGEST_HOST, is_good)?;
        }
        if of_rank.is_empty() || of_rank.iter().any(|&host| host >= hosts.len()) {
            return Err(Error::BadPlacement);
        }
        Ok(Placement { hosts, of_rank })
    }

    /// All `size` ranks on one host.
    ///
    /// # Errors
    /// Like [`Placement::new`].
    pub fn on_one(host: &str, size: u32) -> Result<Placement, Error> {
        Placement::new(vec![host.to_owned()], vec![0; size as usize])
    }

    pub fn size(&self) -> u32 {
        self.of_rank.len() as u32
    }

    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Every rank with the number of its host.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, usize)> + '_ {
        (0..).map(Rank).zip(self.of_rank.iter().copied())
    }

    /// The ranks of a host, in order.
    pub fn ranks_on(&self, host: usize) -> impl Iterator<Item = Rank> + '_ {
        self.ranks()
            .filter(move |&(_, of)| of == host)
            .map(|(rank, _)| rank)
    }

    /// The hosts that have ranks.
    fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts.len()).filter(|&host| self.of_rank.contains(&host))
    }

    pub(crate) fn used_hosts(&self) -> usize {
        self.used().count()
    }

    /// `a,b`, as PMIx takes it (PMIX_NODE_MAP).
    pub(crate) fn node_map(&self) -> String {
        let names: Vec<&str> = self.used().map(|host| self.hosts[host].as_str()).collect();
        format!("raw:{}", names.join(","))
    }

    /// `0,1;2,3`: the ranks of each host (PMIX_PROC_MAP).
    pub(crate) fn process_map(&self) -> String {
        let lists: Vec<String> = self
            .used()
            .map(|host| listed(self.ranks_on(host)))
            .collect();
        format!("raw:{}", lists.join(";"))
    }

    /// `(vector,(0,2,3))`: blocks of first host, hosts, and ranks of each (PMI-1's PMI_process_mapping).
    pub(crate) fn process_mapping(&self) -> String {
        let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
        for run in self.of_rank.chunk_by(|a, b| a == b) {
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

/// `0,2,4`.
pub(crate) fn listed(ranks: impl Iterator<Item = Rank>) -> String {
    ranks
        .map(|rank| rank.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    pub name: Name,
    pub placement: Placement,
    /// Which of the placement's hosts this node is.
    pub here: usize,
    /// Whether its ranks here are more than the processors that they may run on.
    pub is_crowded: bool,
    /// If a program has spawned them (MPI 4.1, 11.8).
    pub spawned: Option<Spawned>,
}

/// What is different in processes that a program has spawned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spawned {
    /// How many processes there are of each program, in the order of their ranks.
    pub of_programs: Vec<u32>,
    pub put: Preput,
}

/// Names and values that PMI-1's ranks can get from the beginning.
pub type Preput = Vec<(String, String)>;

impl Namespace {
    /// One whose ranks are all on this node, and have a processor each.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadPlacement`].
    pub fn here(job: &str, number: u32, host: &str, size: u32) -> Result<Namespace, Error> {
        Ok(Namespace {
            name: Name::new(job, number)?,
            placement: Placement::on_one(host, size)?,
            here: 0,
            is_crowded: false,
            spawned: None,
        })
    }

    /// Which of the programs that were started together this rank is of (MPI_APPNUM; MPI 4.1, 11.10.3).
    pub fn program(&self, rank: Rank) -> u32 {
        let of_programs = self.spawned.iter().flat_map(|spawned| &spawned.of_programs);
        let ends = of_programs.scan(0, |end, processes| {
            *end += processes;
            Some(*end)
        });
        ends.take_while(|&end| end <= rank.0).count() as u32
    }

    /// The place of a rank among those of this node.
    ///
    /// # Errors
    /// [`Error::NotHere`].
    pub fn local_rank(&self, rank: Rank) -> Result<usize, Error> {
        self.ranks_here()
            .position(|of| of == rank)
            .ok_or_else(|| Error::NotHere {
                generation: self.name.to_string(),
                rank: rank.0,
            })
    }

    /// The ranks of this node.
    pub fn ranks_here(&self) -> impl Iterator<Item = Rank> + '_ {
        self.placement.ranks_on(self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(of_rank: &[usize]) -> Placement {
        let hosts = (0..3).map(|host| format!("n{host}")).collect();
        Placement::new(hosts, of_rank.to_vec()).unwrap()
    }

    #[test]
    fn placements_are_told_in_the_forms_of_pmix_and_pmi() {
        for (of_rank, nodes, processes, mapping) in [
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
            let placement = placement(of_rank);
            let told = (
                placement.node_map(),
                placement.process_map(),
                placement.process_mapping(),
            );
            assert_eq!(
                told,
                (nodes.to_owned(), processes.to_owned(), mapping.to_owned())
            );
        }
    }

    #[test]
    fn ranks_are_of_the_programs_in_their_order() {
        let mut namespace = Namespace::here("job", 0, "n", 4).unwrap();
        let programs =
            |namespace: &Namespace| [0, 1, 2, 3].map(|rank| namespace.program(Rank(rank)));
        assert_eq!(programs(&namespace), [0; 4]);
        let of_programs = vec![1, 2, 1];
        let put = Vec::new();
        namespace.spawned = Some(Spawned { of_programs, put });
        assert_eq!(programs(&namespace), [0, 1, 1, 2]);
    }

    #[test]
    fn names_that_would_break_lists_or_paths_are_refused() {
        for job in ["", "a b", "a/b", "a,b", "..", "a\n", "ü", &"x".repeat(65)] {
            assert!(
                matches!(Name::new(job, 0), Err(Error::BadName { .. })),
                "{job}"
            );
        }
        assert_eq!(Name::new("job-1", 7).unwrap().as_str(), "job-1.7");
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
