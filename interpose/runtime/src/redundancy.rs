//! Who keeps what of whom, so that a dead worker can be brought back: a pure function of where the workers are.
//!
//! Each worker's copy is kept by one or several others, its *holders*. Placed in *layers*: in each layer every worker holds
//! the copy of exactly one other, its *partner*. A worker's holders in different layers are different workers.

use crate::placement::Holders;

/// The copies of all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redundancy {
    layers: Vec<Holders>,
}

impl Redundancy {
    /// As many copies of each worker, of which `domains` has the domains, the first `offset` further if possible.
    pub fn place(domains: &[u32], offset: u32, copies: u32) -> Redundancy {
        let mut layers: Vec<Holders> = Vec::new();
        for _ in 0..copies {
            let next = match layers.last() {
                None => Holders::place(domains, offset),
                Some(first) => Holders::place_second(domains, offset, first),
            };
            layers.push(next);
        }
        Redundancy { layers }
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The workers that hold this worker's copy, by layer.
    pub fn holders_of(&self, worker: u32) -> impl Iterator<Item = u32> {
        self.layers.iter().map(move |layer| layer.holder_of(worker))
    }

    /// The workers whose copies this worker holds, by layer.
    pub fn partners_of(&self, worker: u32) -> impl Iterator<Item = u32> {
        self.layers.iter().map(move |layer| layer.partner_of(worker))
    }

    /// The layer in which `holder` holds the copy of `worker`.
    pub fn layer(&self, worker: u32, holder: u32) -> Option<usize> {
        self.holders_of(worker).position(|other| other == holder)
    }

    /// Workers all of whose copies are in their own domain.
    pub fn together(&self, domains: &[u32]) -> Vec<u32> {
        let domain = |worker: u32| domains[worker as usize];
        (0..domains.len() as u32)
            .filter(|&worker| self.holders_of(worker).all(|holder| domain(holder) == domain(worker)))
            .collect()
    }
}
