//! Parity groups and the location of the parity.
//!
//! The scheme is that of a RAID of level 5 (W. Gropp, R. Ross, N. Miller, "Providing Efficient I/O
//! Redundancy in MPI Environments", 2004; SCR calls it XOR). Each member's pages are distributed to
//! the layers 0 to G - 2 (`understudy_image::parity`). The pages of layer l are part of the parity
//! that the member l + 1 places further stores. So a parity contains pages of all other members but
//! none of the member that stores it, and the loss of any one member can be repaired by the others.

use understudy_numbers::Worker;

/// Groups of all workers.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ParityGroups {
    /// Members of each group; the order determines the placement of parity.
    members: Vec<Vec<Worker>>,
    /// Group of each worker, and its position in the group.
    places: Vec<(usize, usize)>,
}

impl ParityGroups {
    /// Forms groups of about `size` workers.
    ///
    /// Members of a group are, if possible, in different domains. `domains` contains the domain
    /// of each worker.
    pub fn place(domains: &[u32], size: u32) -> ParityGroups {
        let workers = domains.len();
        // A group of one worker could not store parity.
        let count = workers.div_ceil(size as usize).min(workers / 2).max(1);
        let mut dealt: Vec<Worker> = Worker::all(workers as u32).collect();
        // Workers are distributed domain by domain, so that workers of one domain get into
        // different groups, as far as there are enough groups.
        dealt.sort_by_key(|&worker| domains[worker.index()]);
        let mut members = vec![Vec::new(); count];
        for (index, worker) in dealt.into_iter().enumerate() {
            members[index % count].push(worker);
        }
        let mut places = vec![(0, 0); workers];
        for (group, members) in members.iter_mut().enumerate() {
            members.sort_unstable();
            for (place, &worker) in members.iter().enumerate() {
                places[worker.index()] = (group, place);
            }
        }
        ParityGroups { members, places }
    }

    /// Returns the members of this worker's group, and its position among them.
    fn group_of(&self, worker: Worker) -> (&[Worker], usize) {
        let (group, place) = self.places[worker.index()];
        (&self.members[group], place)
    }

    /// Returns the number of layers of this worker: one per other group member.
    pub fn layers(&self, worker: Worker) -> usize {
        self.group_of(worker).0.len() - 1
    }

    /// Returns the maximum number of layers of a group.
    pub fn max_layers(&self) -> usize {
        self.members
            .iter()
            .map(|members| members.len() - 1)
            .max()
            .unwrap_or(0)
    }

    /// Returns the worker that stores the parity for this worker's pages of a layer.
    pub fn buddy_of(&self, worker: Worker, layer: usize) -> Worker {
        let (members, place) = self.group_of(worker);
        members[(place + layer + 1) % members.len()]
    }

    /// Returns the worker whose pages of a layer are in this worker's parity.
    pub fn owner_at(&self, worker: Worker, layer: usize) -> Worker {
        let (members, place) = self.group_of(worker);
        members[(place + members.len() - layer - 1) % members.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_parity_for_each_other() {
        for (workers, size) in [
            (4u32, 4),
            (4, 2),
            (5, 2),
            (3, 2),
            (7, 3),
            (8, 4),
            (9, 4),
            (2, 2),
        ] {
            let domains: Vec<u32> = (0..workers).map(|worker| worker / 2).collect();
            let groups = ParityGroups::place(&domains, size);
            for worker in Worker::all(workers) {
                let layers = groups.layers(worker);
                assert!(layers >= 1, "{workers} by {size}");
                let mut others: Vec<Worker> = (0..layers)
                    .map(|layer| groups.buddy_of(worker, layer))
                    .collect();
                for (layer, &buddy) in others.iter().enumerate() {
                    assert_eq!(groups.owner_at(buddy, layer), worker);
                }
                others.sort_unstable();
                others.dedup();
                assert!(others.len() == layers && !others.contains(&worker));
            }
        }
        let numbers = |members: &Vec<Worker>| members.iter().map(|worker| worker.0).collect();
        let members = |groups: &ParityGroups| -> Vec<Vec<u32>> {
            groups.members.iter().map(numbers).collect()
        };
        assert_eq!(
            members(&ParityGroups::place(&[0, 0, 1, 1], 2)),
            [vec![0, 2], vec![1, 3]]
        );
        assert_eq!(
            members(&ParityGroups::place(&[0; 5], 3)),
            [vec![0, 2, 4], vec![1, 3]]
        );
    }
}
