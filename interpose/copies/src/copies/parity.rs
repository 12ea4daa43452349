//! Parity instead of whole replicas: messages in a group, and the stored parity.
//!
//! Parity restores the content of pages, but not the list of a member's pages nor state outside of
//! pages. These are small, and the next member of the group stores them: the [`Description`].

use super::copy::{Copy, State};
use super::transfer::{Payload, Transfer};
use bincode::config::standard;
use understudy_image::epoch::{Delta, Image, SlotRun, WrongBase};
use understudy_image::parity::{self, Combine};
use understudy_image::runs::{self, PageRun};
use understudy_image::store::{PageStore, StoreError};
use understudy_image::wire::Outgoing;
use understudy_numbers::Epoch;

/// Layer whose buddy stores the description.
pub const DESCRIBED: usize = 0;

/// Epoch of a worker, without the content of its pages.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Description {
    pub epoch: Epoch,
    /// Pages of the worker, sorted.
    pub pages: Vec<PageRun>,
    pub sums: Vec<u64>,
    state: Vec<u8>,
    state_sum: u64,
}

impl Description {
    /// Describes a committed replica.
    fn of(copy: &Copy, store: &PageStore) -> Description {
        Description {
            epoch: copy.image.epoch(),
            pages: copy.image.pages(),
            sums: store.sums(copy.image.runs()),
            state: copy.state.bytes.clone(),
            state_sum: copy.state.sum,
        }
    }

    /// Describes the epoch to which `delta` leads from `image`.
    pub fn after(delta: &Delta, image: &Image, state: &State, store: &PageStore) -> Description {
        let gone = runs::union(&delta.pages(), delta.dropped());
        let mut all = image.slots_of(&runs::subtract(&image.pages(), &gone));
        all.extend(delta.runs());
        all.sort_unstable_by_key(|run| run.pages);
        Description {
            epoch: delta.epoch(),
            pages: runs::normalise(all.iter().map(|run| run.pages).collect()),
            sums: store.sums(&all),
            state: state.bytes.clone(),
            state_sum: state.sum,
        }
    }

    /// Encodes the description as the state that accompanies the pages of a transfer.
    pub fn encode(&self) -> State {
        State::new(
            bincode::encode_to_vec(self, standard()).expect("encoding into memory does not fail"),
        )
    }

    /// Decodes a description; `None` if it is damaged.
    pub fn decode(encoded: &State) -> Option<Description> {
        let decoded = bincode::decode_from_slice(&encoded.bytes, standard());
        encoded.is_whole().then_some(decoded.ok()?.0)
    }

    /// Returns the state outside of pages.
    pub fn state(&self) -> State {
        State {
            bytes: self.state.clone(),
            sum: self.state_sum,
        }
    }
}

/// Creates a transfer of pages whose numbers are not those of the slots' owners.
///
/// They need no checksums: the pages computed from them are verified with those of the description.
fn transfer(
    runs: Vec<SlotRun>,
    epoch: Epoch,
    base: Option<Epoch>,
    state: State,
    store: &PageStore,
) -> Transfer {
    let mut transfer = Transfer::receive_only();
    give(&mut transfer, runs, epoch, base, state, store);
    transfer
}

/// Adds such pages to a transfer.
pub fn give(
    transfer: &mut Transfer,
    runs: Vec<SlotRun>,
    epoch: Epoch,
    base: Option<Epoch>,
    state: State,
    store: &PageStore,
) {
    let count = runs.iter().map(|run| run.pages.pages).sum::<u64>();
    transfer.give(Outgoing::of(epoch, base, runs, store), state);
    transfer.sums_before(vec![0; count as usize]);
}

/// Creates the transfer of a worker's contribution to a layer's lost parity.
pub fn contribution(copy: &Copy, layer: usize, layers: usize, store: &PageStore) -> Transfer {
    let state = match layer {
        DESCRIBED => Description::of(copy, store).encode(),
        _ => State::default(),
    };
    let runs = parity::block(&copy.image, layer, layers);
    transfer(runs, copy.image.epoch(), None, state, store)
}

/// Creates the transfer of a member's contribution to a lost worker's replica.
///
/// See [`parity::piece`].
pub fn piece(
    own: &Copy,
    kept: &Copy,
    layer: usize,
    layers: &[Option<usize>],
    store: &PageStore,
) -> Transfer {
    let runs = parity::piece(&own.image, &kept.image, layer, layers);
    let state = if layer == DESCRIBED {
        kept.state.clone()
    } else {
        State::default()
    };
    transfer(runs, own.image.epoch(), None, state, store)
}

/// Parity that is being computed: received changes, and memory for the result.
pub struct Folding {
    delta: Delta,
    changes: Vec<Vec<SlotRun>>,
    description: State,
}

impl Folding {
    /// Allocates memory for the result; the computation is added to `combine`.
    ///
    /// `payloads` are those of the layers.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(
        payloads: Vec<Payload>,
        parity: &Image,
        epoch: Epoch,
        combine: &mut Combine,
        store: &mut PageStore,
    ) -> Result<Folding, StoreError> {
        let (mut changes, mut description) = (Vec::new(), State::default());
        for (layer, payload) in payloads.into_iter().enumerate() {
            let (runs, state) = payload.into_parts();
            changes.push(runs);
            if layer == DESCRIBED {
                description = state;
            }
        }
        let delta = parity::fold(parity, &changes, epoch, combine, store)?;
        Ok(Folding {
            delta,
            changes,
            description,
        })
    }

    /// Replaces the stored parity by the result, once the computation is done.
    ///
    /// # Errors
    /// If the result does not follow the stored epoch.
    pub fn apply(
        mut self,
        is_something: &[u64],
        kept: &mut Copy,
        store: &mut PageStore,
    ) -> Result<(), WrongBase> {
        parity::thin(&mut self.delta, is_something, store);
        store.release(self.changes.into_iter().flatten().map(SlotRun::extent));
        kept.image
            .apply(self.delta, store)
            .map_err(|(wrong, _)| wrong)?;
        kept.state = self.description;
        Ok(())
    }

    /// Returns the parity that [`Folding::apply`] would store.
    pub fn preview(&self, kept: &Copy) -> Copy {
        Copy {
            image: kept.image.after(&self.delta),
            state: self.description.clone(),
            script: None,
        }
    }

    /// Releases the memory, once the computation is done.
    pub fn give_up(self, store: &mut PageStore) {
        store.release(self.changes.into_iter().flatten().map(SlotRun::extent));
        self.delta.free(store);
    }
}
