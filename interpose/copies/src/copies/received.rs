//! Data received from other workers for an epoch that is not committed yet.

use super::checkpoint_parts::CheckpointParts;
use super::parity_transfer::Folding;
use super::replica::Replica;
use super::transfer::Payload;
use crate::abort::abort_with_error;
use crate::world;
use understudy_catalogue::message;
use understudy_image::helper::{Helper, HelperTask};
use understudy_image::image_delta::WrongBase;
use understudy_image::parity::XorPlan;
use understudy_image::store::PageStore;
use understudy_job::Runtime;
use understudy_numbers::Epoch;

/// Complete received data, which are to be applied to the stored replicas.
pub enum ReceivedReplicas {
    /// Replicas of all layers.
    Copies(Vec<Payload>),
    /// Changes of the parity, which are being applied.
    Parity {
        /// Resulting parity.
        folding: Folding,
        /// Computation of the parity.
        task: HelperTask,
        /// True if the computation is done.
        is_done: bool,
    },
}

impl ReceivedReplicas {
    pub fn new(
        rt: &Runtime,
        payloads: Vec<Payload>,
        epoch: Epoch,
        parts: &mut CheckpointParts,
    ) -> ReceivedReplicas {
        // With parity there is one image for all layers.
        let last = parts.stored.len().saturating_sub(1);
        for (layer, payload) in payloads.iter().enumerate() {
            let image = parts.stored[layer.min(last)].image.epoch();
            if let Some(base) = payload.base().filter(|&base| base != image) {
                abort_with_error(rt, message::REPLICA_NOT_STORED, &WrongBase { base, image });
            }
        }
        if !world::get(rt).redundancy.is_parity() {
            return ReceivedReplicas::Copies(payloads);
        }
        let mut combine = XorPlan::default();
        let parity = &parts.stored[0].image;
        let folding = Folding::new(payloads, parity, epoch, &mut combine, parts.store)
            .unwrap_or_else(|error| abort_with_error(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
        ReceivedReplicas::Parity {
            folding,
            task: parts.helper.start(Box::new(move || combine.execute())),
            is_done: false,
        }
    }

    /// Returns true if this worker has all data for the commit.
    pub fn poll_complete(&mut self, helper: &Helper) -> bool {
        match self {
            ReceivedReplicas::Copies(_) => true,
            ReceivedReplicas::Parity { task, is_done, .. } => {
                *is_done = *is_done || helper.poll(task);
                *is_done
            }
        }
    }

    /// Returns the replicas as they will be after the commit.
    pub fn preview(&self, stored: &[Replica], store: &mut PageStore) -> Vec<Replica> {
        match self {
            ReceivedReplicas::Copies(payloads) => {
                let pairs = payloads.iter().zip(stored);
                pairs
                    .map(|(payload, kept)| payload.preview(kept, store))
                    .collect()
            }
            ReceivedReplicas::Parity { folding, .. } => vec![folding.preview(&stored[0])],
        }
    }

    /// Commits the data.
    pub fn apply(
        self,
        rt: &Runtime,
        stored: &mut [Replica],
        store: &mut PageStore,
        helper: &Helper,
    ) {
        match self {
            ReceivedReplicas::Copies(payloads) => {
                for (payload, kept) in payloads.into_iter().zip(stored) {
                    payload.apply(kept, store).unwrap_or_else(|error| {
                        abort_with_error(rt, message::RECEIVED_REPLICA_NOT_STORED, &error)
                    });
                }
            }
            ReceivedReplicas::Parity { folding, task, .. } => {
                let is_something = helper.wait(task);
                folding
                    .apply(&is_something, &mut stored[0], store)
                    .unwrap_or_else(|error| {
                        abort_with_error(rt, message::PARITY_NOT_STORED, &error)
                    });
            }
        }
    }

    /// Discards the data.
    pub fn discard(self, store: &mut PageStore, helper: &Helper) {
        match self {
            ReceivedReplicas::Copies(payloads) => payloads
                .into_iter()
                .for_each(|payload| payload.release_after_reset(store)),
            ReceivedReplicas::Parity { folding, task, .. } => {
                helper.wait(task);
                folding.discard(store);
            }
        }
    }
}
