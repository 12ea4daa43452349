//! Parity in place of whole copies: what a worker sends to its group, and what it keeps for it.
//!
//! Parity brings pages back, but does not know which pages a member has, nor what is not in pages.
//! That is small, and the next member of the group keeps it: the [`Description`].

use super::copy::{Copy, State};
use super::transfer::{Payload, Transfer};
use bincode::config::standard;
use understudy_image::epoch::{Delta, Image, SlotRun, WrongBase};
use understudy_image::parity::{self, Combine};
use understudy_image::runs::{self, PageRun};
use understudy_image::store::{PageStore, StoreError};
use understudy_image::wire::Outgoing;
use understudy_numbers::Epoch;

/// The layer whose holder keeps the description.
pub const DESCRIBED: usize = 0;

/// A worker's epoch but for what is in its pages.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Description {
    pub epoch: Epoch,
    /// Its pages, sorted.
    pub pages: Vec<PageRun>,
    pub sums: Vec<u64>,
    state: Vec<u8>,
    state_sum: u64,
}

impl Description {
    /// Of a committed copy.
    fn of(copy: &Copy, store: &PageStore) -> Description {
        Description {
            epoch: copy.image.epoch(),
            pages: copy.image.pages(),
            sums: store.sums(copy.image.runs()),
            state: copy.state.bytes.clone(),
            state_sum: copy.state.sum,
        }
    }

    /// Of the epoch to which `delta` leads from `image`.
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

    /// As what goes with the pages of a transfer.
    pub fn encode(&self) -> State {
        State::new(
            bincode::encode_to_vec(self, standard()).expect("encoding into memory does not fail"),
        )
    }

    /// Reads it; `None` if it is not what was encoded.
    pub fn decode(encoded: &State) -> Option<Description> {
        let decoded = bincode::decode_from_slice(&encoded.bytes, standard());
        encoded.is_whole().then_some(decoded.ok()?.0)
    }

    /// What is not in pages.
    pub fn state(&self) -> State {
        State {
            bytes: self.state.clone(),
            sum: self.state_sum,
        }
    }
}

/// A transfer of pages that belong to others than those in the slots. They need no checksums: what
/// is made of them is compared with those of the description.
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

/// Gives a transfer such pages.
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

/// What a worker's copy adds to the parity of a layer's holder that has lost it.
pub fn contribution(copy: &Copy, layer: usize, layers: usize, store: &PageStore) -> Transfer {
    let state = match layer {
        DESCRIBED => Description::of(copy, store).encode(),
        _ => State::default(),
    };
    let runs = parity::block(&copy.image, layer, layers);
    transfer(runs, copy.image.epoch(), None, state, store)
}

/// What a holder adds to the copy of a lost worker ([`parity::piece`]).
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

/// New parity in the making: what has come from the partners, and the room for the parity after it.
pub struct Folding {
    delta: Delta,
    changes: Vec<Vec<SlotRun>>,
    description: State,
}

impl Folding {
    /// Makes room; the work is in `combine` then. The payloads are those of the layers.
    ///
    /// # Errors
    /// When there is no room.
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

    /// The work has been done: this is the parity now.
    ///
    /// # Errors
    /// When it does not follow what is kept.
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

    /// The same without a change of what is kept.
    pub fn preview(&self, kept: &Copy) -> Copy {
        Copy {
            image: kept.image.after(&self.delta),
            state: self.description.clone(),
            script: None,
        }
    }

    /// Gives the room back, when the work has been done.
    pub fn give_up(self, store: &mut PageStore) {
        store.release(self.changes.into_iter().flatten().map(SlotRun::extent));
        self.delta.free(store);
    }
}
