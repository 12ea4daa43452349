//! Redundancy of all workers' memory, computed from their failure domains.
//!
//! Replicas are placed in *layers*: in each layer every worker has one buddy, and is itself the
//! buddy of one other worker. With whole replicas, each buddy stores one, and any of them is
//! sufficient. With parity, a worker and its buddies form a group ([`parity_groups`]). Each buddy's
//! parity covers the pages of one layer, and all buddies are needed.

pub mod parity_groups;

use crate::placement::Buddies;
use parity_groups::ParityGroups;
use understudy_numbers::Worker;
use understudy_settings::Scheme;

#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Layers {
    Copies(Vec<Buddies>),
    Parity(ParityGroups),
}

/// Placement of all replicas or parities.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Redundancy {
    layers: Layers,
}

impl Redundancy {
    /// Places replicas of workers in these `domains`, the first ones at `offset` if possible.
    pub fn place(domains: &[u32], offset: u32, scheme: Scheme) -> Redundancy {
        let copies = match scheme {
            Scheme::Parity(size) => {
                let layers = Layers::Parity(ParityGroups::place(domains, size));
                return Redundancy { layers };
            }
            Scheme::Copies(copies) => copies,
        };
        let mut layers: Vec<Buddies> = Vec::new();
        for _ in 0..copies {
            let next = match layers.last() {
                None => Buddies::place(domains, offset),
                Some(first) => Buddies::place_second(domains, offset, first),
            };
            layers.push(next);
        }
        let layers = Layers::Copies(layers);
        Redundancy { layers }
    }

    /// True if parity is stored instead of whole replicas.
    pub fn is_parity(&self) -> bool {
        matches!(self.layers, Layers::Parity(_))
    }

    /// Returns the number of images that every worker stores for others.
    pub fn images_per_worker(&self) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(_) => 1,
        }
    }

    /// Returns the number of layers of this worker.
    pub fn layers(&self, worker: Worker) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(groups) => groups.layers(worker),
        }
    }

    /// Returns all layers of this worker, as bits `1 << layer`.
    pub fn all_layers(&self, worker: Worker) -> u64 {
        (1 << self.layers(worker)) - 1
    }

    /// Returns the maximum number of layers of a worker.
    pub fn max_layers(&self) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(groups) => groups.max_layers(),
        }
    }

    /// Returns the buddies of this worker, by layer.
    pub fn buddies_of(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        (0..self.layers(worker)).map(move |layer| match &self.layers {
            Layers::Copies(layers) => layers[layer].buddy_of(worker),
            Layers::Parity(groups) => groups.buddy_of(worker, layer),
        })
    }

    /// Returns the workers whose buddy this worker is, by layer.
    pub fn owners_at(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        (0..self.layers(worker)).map(move |layer| match &self.layers {
            Layers::Copies(layers) => layers[layer].owner_at(worker),
            Layers::Parity(groups) => groups.owner_at(worker, layer),
        })
    }

    /// Returns the layer in which `buddy` is the buddy of `worker`.
    pub fn layer(&self, worker: Worker, buddy: Worker) -> Option<usize> {
        self.buddies_of(worker).position(|other| other == buddy)
    }

    /// Returns the workers that are lost if all of their own domain fails.
    pub fn lost_with_domain(&self, domains: &[u32]) -> Vec<Worker> {
        let domain = |worker: Worker| domains[worker.index()];
        let is_lost = |worker: &Worker| {
            let mut is_with = self
                .buddies_of(*worker)
                .map(|buddy| domain(buddy) == domain(*worker));
            match self.layers {
                Layers::Copies(_) => is_with.all(|is_with| is_with),
                Layers::Parity(_) => is_with.any(|is_with| is_with),
            }
        };
        Worker::all(domains.len() as u32).filter(is_lost).collect()
    }
}
