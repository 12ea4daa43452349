//! Parity instead of whole replicas: messages in a group, and the stored parity.
//!
//! Parity restores the content of pages, but not the list of a member's pages nor state outside of
//! pages. List and state are small, and the next member of the group stores them: the
//! [`EpochDescription`].

use super::replica::{EncodedState, Replica};
use super::transfer::{Payload, Transfer};
use bincode::config::standard;
use understudy_image::image_delta::{Delta, Image, SlotRun, WrongBase};
use understudy_image::pages::{self, PageRun};
use understudy_image::parity::{self, XorPlan};
use understudy_image::store::{PageStore, StoreError};
use understudy_image::wire::Outgoing;
use understudy_numbers::Epoch;

/// Layer whose buddy stores the description.
pub const DESCRIPTION_LAYER: usize = 0;

/// Epoch of a worker, without the content of its pages.
#[derive(bincode::Encode, bincode::Decode)]
pub struct EpochDescription {
    pub epoch: Epoch,
    /// Pages of the worker, sorted.
    pub pages: Vec<PageRun>,
    pub sums: Vec<u64>,
    state: Vec<u8>,
    state_sum: u64,
}

impl EpochDescription {
    /// Describes a committed replica.
    fn of(copy: &Replica, store: &PageStore) -> EpochDescription {
        EpochDescription {
            epoch: copy.image.epoch(),
            pages: copy.image.pages(),
            sums: store.sums(copy.image.runs()),
            state: copy.state.bytes.clone(),
            state_sum: copy.state.sum,
        }
    }

    /// Describes the epoch to which `delta` leads from `image`.
    pub fn after(
        delta: &Delta,
        image: &Image,
        state: &EncodedState,
        store: &PageStore,
    ) -> EpochDescription {
        let gone = pages::union(&delta.pages(), delta.dropped());
        let mut all = image.slots_of(&pages::subtract(&image.pages(), &gone));
        all.extend(delta.runs());
        all.sort_unstable_by_key(|run| run.pages);
        EpochDescription {
            epoch: delta.epoch(),
            pages: pages::normalise(all.iter().map(|run| run.pages).collect()),
            sums: store.sums(&all),
            state: state.bytes.clone(),
            state_sum: state.sum,
        }
    }

    /// Encodes the description as the state that accompanies the pages of a transfer.
    pub fn encode(&self) -> EncodedState {
        EncodedState::new(
            bincode::encode_to_vec(self, standard()).expect("encoding into memory does not fail"),
        )
    }

    /// Decodes a description; `None` if it is damaged.
    pub fn decode(encoded: &EncodedState) -> Option<EpochDescription> {
        let decoded = bincode::decode_from_slice(&encoded.bytes, standard());
        encoded.is_unchanged().then_some(decoded.ok()?.0)
    }

    /// Returns the state outside of pages.
    pub fn state(&self) -> EncodedState {
        EncodedState {
            bytes: self.state.clone(),
            sum: self.state_sum,
        }
    }
}

/// Creates a transfer of pages whose numbers [`parity`] has assigned.
///
/// The pages need no checksums: the pages computed from them are verified with the checksums of the
/// description.
fn transfer(
    runs: Vec<SlotRun>,
    epoch: Epoch,
    base: Option<Epoch>,
    state: EncodedState,
    store: &PageStore,
) -> Transfer {
    let mut transfer = Transfer::receive_only();
    add_pages(&mut transfer, runs, epoch, base, state, store);
    transfer
}

/// Adds pages to a transfer, with the numbers that [`parity`] has assigned.
pub fn add_pages(
    transfer: &mut Transfer,
    runs: Vec<SlotRun>,
    epoch: Epoch,
    base: Option<Epoch>,
    state: EncodedState,
    store: &PageStore,
) {
    let count = runs.iter().map(|run| run.pages.pages).sum::<u64>();
    transfer.set_outgoing(Outgoing::of_parity(epoch, base, runs, store), state);
    transfer.set_sums(vec![0; count as usize]);
}

/// Creates the transfer of a worker's contribution to a layer's lost parity.
pub fn contribution(copy: &Replica, layer: usize, layers: usize, store: &PageStore) -> Transfer {
    let state = match layer {
        DESCRIPTION_LAYER => EpochDescription::of(copy, store).encode(),
        _ => EncodedState::default(),
    };
    let runs = parity::pages_of_layer(&copy.image, layer, layers);
    transfer(runs, copy.image.epoch(), None, state, store)
}

/// Creates the transfer of a member's contribution to a lost worker's replica.
///
/// See [`parity::contribution`].
pub fn reconstruction_piece(
    own: &Replica,
    kept: &Replica,
    layer: usize,
    layers: &[Option<usize>],
    store: &PageStore,
) -> Transfer {
    let runs = parity::contribution(&own.image, &kept.image, layer, layers);
    let state = if layer == DESCRIPTION_LAYER {
        kept.state.clone()
    } else {
        EncodedState::default()
    };
    transfer(runs, own.image.epoch(), None, state, store)
}

/// Parity that is being computed: received changes, and memory for the result.
pub struct Folding {
    delta: Delta,
    changes: Vec<Vec<SlotRun>>,
    description: EncodedState,
}

impl Folding {
    /// Allocates memory for the result; the computation is added to `combine`.
    ///
    /// `payloads` has one entry for each layer.
    ///
    /// # Errors
    /// Fails if the page store has no room for the result.
    pub fn new(
        payloads: Vec<Payload>,
        parity: &Image,
        epoch: Epoch,
        combine: &mut XorPlan,
        store: &mut PageStore,
    ) -> Result<Folding, StoreError> {
        let (mut changes, mut description) = (Vec::new(), EncodedState::default());
        for (layer, payload) in payloads.into_iter().enumerate() {
            let (runs, state) = payload.into_parts();
            changes.push(runs);
            if layer == DESCRIPTION_LAYER {
                description = state;
            }
        }
        let delta = parity::fold_changes(parity, &changes, epoch, combine, store)?;
        Ok(Folding {
            delta,
            changes,
            description,
        })
    }

    /// Replaces the stored parity by the result, once the computation is done.
    ///
    /// # Errors
    /// Fails if the result does not follow the stored epoch.
    pub fn apply(
        mut self,
        is_something: &[u64],
        kept: &mut Replica,
        store: &mut PageStore,
    ) -> Result<(), WrongBase> {
        parity::drop_zero_pages(&mut self.delta, is_something, store);
        store.release(self.changes.into_iter().flatten().map(SlotRun::extent));
        kept.image
            .apply(self.delta, store)
            .map_err(|(wrong, _)| wrong)?;
        kept.state = self.description;
        Ok(())
    }

    /// Returns the parity that [`Folding::apply`] would store.
    pub fn preview(&self, kept: &Replica) -> Replica {
        Replica {
            image: kept.image.after(&self.delta),
            state: self.description.clone(),
            replay_plan: None,
        }
    }

    /// Releases the memory, once the computation is done.
    pub fn discard(self, store: &mut PageStore) {
        store.release(self.changes.into_iter().flatten().map(SlotRun::extent));
        self.delta.free(store);
    }
}
