//! Who keeps what of whom, so that a dead worker can be brought back: a pure function of where the
//! workers are.
//!
//! A worker's *holders* are placed in *layers*: in each layer every worker has one holder, and is
//! the holder of one other, its *partner*. With whole copies, each holder has one; any of them is
//! enough. With parity, a worker and its holders are a group ([`groups`]); each holder has what
//! belongs to one layer in its parity, and all of them are needed.

pub mod groups;

use crate::placement::Holders;
use groups::Groups;
use understudy_numbers::Worker;
use understudy_settings::Scheme;

#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Layers {
    Copies(Vec<Holders>),
    Parity(Groups),
}

/// Who keeps what of whom.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Redundancy {
    layers: Layers,
}

impl Redundancy {
    /// For workers in these `domains`; the first copies `offset` further if possible.
    pub fn place(domains: &[u32], offset: u32, scheme: Scheme) -> Redundancy {
        let copies = match scheme {
            Scheme::Parity(size) => {
                let layers = Layers::Parity(Groups::place(domains, size));
                return Redundancy { layers };
            }
            Scheme::Copies(copies) => copies,
        };
        let mut layers: Vec<Holders> = Vec::new();
        for _ in 0..copies {
            let next = match layers.last() {
                None => Holders::place(domains, offset),
                Some(first) => Holders::place_second(domains, offset, first),
            };
            layers.push(next);
        }
        let layers = Layers::Copies(layers);
        Redundancy { layers }
    }

    /// Whether parity is kept instead of copies.
    pub fn is_parity(&self) -> bool {
        matches!(self.layers, Layers::Parity(_))
    }

    /// How many images every worker keeps for its partners.
    pub fn kept(&self) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(_) => 1,
        }
    }

    /// How many layers this worker has.
    pub fn layers(&self, worker: Worker) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(groups) => groups.layers(worker),
        }
    }

    /// Whether there are two layers at least for some worker.
    pub fn most_layers(&self) -> usize {
        match &self.layers {
            Layers::Copies(layers) => layers.len(),
            Layers::Parity(groups) => groups.most_layers(),
        }
    }

    /// The workers that hold something of this worker, by layer.
    pub fn holders_of(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        (0..self.layers(worker)).map(move |layer| match &self.layers {
            Layers::Copies(layers) => layers[layer].holder_of(worker),
            Layers::Parity(groups) => groups.holder_of(worker, layer),
        })
    }

    /// The workers of which this worker holds something, by layer.
    pub fn partners_of(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        (0..self.layers(worker)).map(move |layer| match &self.layers {
            Layers::Copies(layers) => layers[layer].partner_of(worker),
            Layers::Parity(groups) => groups.partner_of(worker, layer),
        })
    }

    /// The layer in which `holder` holds something of `worker`.
    pub fn layer(&self, worker: Worker, holder: Worker) -> Option<usize> {
        self.holders_of(worker).position(|other| other == holder)
    }

    /// Workers that are lost if all of their own domain fails.
    pub fn together(&self, domains: &[u32]) -> Vec<Worker> {
        let domain = |worker: Worker| domains[worker.index()];
        let is_lost = |worker: &Worker| {
            let mut is_with = self
                .holders_of(*worker)
                .map(|holder| domain(holder) == domain(*worker));
            match self.layers {
                Layers::Copies(_) => is_with.all(|is_with| is_with),
                Layers::Parity(_) => is_with.any(|is_with| is_with),
            }
        };
        Worker::all(domains.len() as u32).filter(is_lost).collect()
    }
}
