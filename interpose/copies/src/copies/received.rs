//! Data received from other workers for an epoch that is not committed yet.

use super::copy::Copy;
use super::hands::Hands;
use super::parity::Folding;
use super::transfer::Payload;
use crate::ending::fail;
use crate::world;
use understudy_catalogue::message;
use understudy_image::epoch::WrongBase;
use understudy_image::helper::{Helper, Task};
use understudy_image::parity::Combine;
use understudy_image::store::PageStore;
use understudy_job::Runtime;
use understudy_numbers::Epoch;

pub enum Received {
    /// Replicas of all layers.
    Copies(Vec<Payload>),
    /// Changes of the parity, which are being applied.
    Parity {
        /// Resulting parity.
        folding: Folding,
        /// Computation of the parity.
        task: Task,
        /// True if the computation is done.
        is_done: bool,
    },
}

impl Received {
    pub fn new(rt: &Runtime, payloads: Vec<Payload>, epoch: Epoch, hands: &mut Hands) -> Received {
        // With parity there is one image for all layers.
        let last = hands.partners.len().saturating_sub(1);
        for (layer, payload) in payloads.iter().enumerate() {
            let image = hands.partners[layer.min(last)].image.epoch();
            if let Some(base) = payload.base().filter(|&base| base != image) {
                fail(rt, message::REPLICA_NOT_STORED, &WrongBase { base, image });
            }
        }
        if !world::get(rt).redundancy.is_parity() {
            return Received::Copies(payloads);
        }
        let mut combine = Combine::default();
        let parity = &hands.partners[0].image;
        let folding = Folding::new(payloads, parity, epoch, &mut combine, hands.store)
            .unwrap_or_else(|error| fail(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
        Received::Parity {
            folding,
            task: hands.helper.start(Box::new(move || combine.run())),
            is_done: false,
        }
    }

    /// Returns true if this worker has all data for the commit.
    pub fn is_ready(&mut self, helper: &Helper) -> bool {
        match self {
            Received::Copies(_) => true,
            Received::Parity { task, is_done, .. } => {
                *is_done = *is_done || helper.is_over(task);
                *is_done
            }
        }
    }

    /// Returns the replicas as they will be after the commit.
    pub fn preview(&self, partners: &[Copy], store: &mut PageStore) -> Vec<Copy> {
        match self {
            Received::Copies(payloads) => {
                let pairs = payloads.iter().zip(partners);
                pairs
                    .map(|(payload, kept)| payload.preview(kept, store))
                    .collect()
            }
            Received::Parity { folding, .. } => vec![folding.preview(&partners[0])],
        }
    }

    /// Commits the data.
    pub fn apply(
        self,
        rt: &Runtime,
        partners: &mut [Copy],
        store: &mut PageStore,
        helper: &Helper,
    ) {
        match self {
            Received::Copies(payloads) => {
                for (payload, kept) in payloads.into_iter().zip(partners) {
                    payload.apply(kept, store).unwrap_or_else(|error| {
                        fail(rt, message::RECEIVED_REPLICA_NOT_STORED, &error)
                    });
                }
            }
            Received::Parity { folding, task, .. } => {
                let is_something = helper.end(task);
                folding
                    .apply(&is_something, &mut partners[0], store)
                    .unwrap_or_else(|error| fail(rt, message::PARITY_NOT_STORED, &error));
            }
        }
    }

    /// Discards the data.
    pub fn give_up(self, store: &mut PageStore, helper: &Helper) {
        match self {
            Received::Copies(payloads) => payloads
                .into_iter()
                .for_each(|payload| payload.give_up(store)),
            Received::Parity { folding, task, .. } => {
                helper.end(task);
                folding.give_up(store);
            }
        }
    }
}
