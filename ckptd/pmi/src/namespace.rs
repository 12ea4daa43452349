//! Namespace of a generation: one MPI_COMM_WORLD.

use crate::{Error, GenerationName, Placement};
use understudy_numbers::Rank;

/// Name, hosts and ranks of a generation, or of processes that a program has spawned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    pub name: GenerationName,
    pub placement: Placement,
    /// Index of this node among the hosts of the placement.
    pub here: usize,
    /// True if this node has more ranks than processors for them.
    pub is_crowded: bool,
    /// Set if a program has spawned the ranks (MPI 4.1, 11.8).
    pub spawned: Option<Spawned>,
}

/// Additional data of processes that a program has spawned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spawned {
    /// Number of processes of each program, in the order of the ranks.
    pub process_counts: Vec<u32>,
    pub put: Preput,
}

/// Names and values that PMI-1's ranks can get from the beginning.
pub type Preput = Vec<(String, String)>;

impl Namespace {
    /// Returns a namespace whose ranks are all on this node and have a processor each.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadPlacement`].
    pub fn here(job: &str, number: u32, host: &str, size: u32) -> Result<Namespace, Error> {
        Ok(Namespace {
            name: GenerationName::new(job, number)?,
            placement: Placement::on_one(host, size)?,
            here: 0,
            is_crowded: false,
            spawned: None,
        })
    }

    /// Returns the index of a rank's program (MPI_APPNUM; MPI 4.1, 11.10.3).
    ///
    /// Several programs may be started together.
    pub fn program(&self, rank: Rank) -> u32 {
        let process_counts = self
            .spawned
            .iter()
            .flat_map(|spawned| &spawned.process_counts);
        let ends = process_counts.scan(0, |end, processes| {
            *end += processes;
            Some(*end)
        });
        ends.take_while(|&end| end <= rank.0).count() as u32
    }

    /// Returns the index of a rank among the ranks of this node.
    ///
    /// # Errors
    /// [`Error::NotHere`].
    pub fn local_rank(&self, rank: Rank) -> Result<usize, Error> {
        let found = self.placement.ranks_on(self.here).binary_search(&rank);
        found.map_err(|_| Error::NotHere {
            generation: self.name.to_string(),
            rank: rank.0,
        })
    }

    /// Returns the ranks of this node.
    pub fn ranks_here(&self) -> impl ExactSizeIterator<Item = Rank> + '_ {
        self.placement.ranks_on(self.here).iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_of_the_programs_in_their_order() {
        let mut namespace = Namespace::here("job", 0, "n", 4).unwrap();
        let programs =
            |namespace: &Namespace| [0, 1, 2, 3].map(|rank| namespace.program(Rank(rank)));
        assert_eq!(programs(&namespace), [0; 4]);
        let process_counts = vec![1, 2, 1];
        let put = Vec::new();
        namespace.spawned = Some(Spawned {
            process_counts,
            put,
        });
        assert_eq!(programs(&namespace), [0, 1, 1, 2]);
    }
}
