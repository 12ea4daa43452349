//! A pending checkpoint, from its capture to the vote that commits it.

use super::buddies::buddies;
use super::copy::{Copy, State};
use super::hands::Hands;
use super::inquiries::{self, Inquiries};
use super::legacy::{Context, Kept};
use super::parity::{self, Description};
use super::received::Received;
use super::transfer::Transfer;
use crate::ending::fail;
use crate::own_messages::tag;
use crate::rounds::{Numbers, Rounds};
use crate::sys::quietly;
use crate::{events, fault, headroom, world};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::epoch::Delta;
use understudy_image::helper::{Helper, Task, Work};
use understudy_image::parity::Combine;
use understudy_image::runs::PageRun;
use understudy_image::store::PageStore;
use understudy_image::wire::SendOptions;
use understudy_image::{parity as layers, sums};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_mpi::both;
use understudy_numbers::{Epoch, Worker};

/// Maximum number of pages (128 KiB) that are processed without waking the helper thread.
const FEW: u64 = 32;

/// Captured state of a checkpoint.
pub struct Capture {
    /// Changed pages.
    pub delta: Delta,
    /// State outside of pages.
    pub state: State,
    /// Pages that are elided here after the commit (sorted).
    pub spared: Vec<PageRun>,
    pub began: Instant,
}

/// Pending checkpoint.
pub struct Pending {
    pub epoch: Epoch,
    pub delta: Delta,
    /// State outside of pages.
    pub state: State,
    /// Pages that this process elides.
    pub spared: Vec<PageRun>,
    pub began: Instant,
    /// Computation of the delta's checksums and of its changes in parity.
    preparing: Option<Task>,
    /// Changes of the parity by the delta, per layer; empty without parity.
    changes: Vec<Delta>,
    /// Deduplication queries that precede the pages.
    inquiries: Inquiries,
    /// Transfers to the buddy and from the other worker of each layer.
    transfers: Vec<Transfer>,
    /// Complete received data, and their length by layer.
    received: Option<(Received, Vec<u64>)>,
    /// Vote on the commit, once this worker has received everything.
    commit: Option<Rounds>,
    /// Time until all data were sent, too.
    shipped: Option<Duration>,
}

/// Result of a finished checkpoint, to be applied or discarded.
pub struct Remains {
    pub delta: Delta,
    /// State outside of pages.
    pub state: State,
    /// Pages that are elided here (sorted).
    pub spared: Vec<PageRun>,
    /// Data received from other workers.
    pub received: Option<Received>,
}

impl Pending {
    /// Begins a checkpoint for the captured state; `transfers` are ready to receive.
    pub fn begin(
        rt: &Runtime,
        captured: Capture,
        transfers: Vec<Transfer>,
        hands: Hands,
    ) -> Pending {
        let Capture {
            delta,
            state,
            spared,
            began,
        } = captured;
        let mut pending = Pending {
            inquiries: Inquiries::due(rt, &delta, hands.habits),
            epoch: delta.epoch(),
            delta,
            state,
            spared,
            began,
            preparing: None,
            changes: Vec::new(),
            transfers,
            received: None,
            commit: None,
            shipped: None,
        };
        let sums = sums::work(pending.delta.runs(), hands.store);
        let work: Work = if world::get(rt).redundancy.is_parity() {
            let mut combine = Combine::default();
            let (layers, own) = (pending.transfers.len(), &hands.own.image);
            pending.changes =
                layers::changes(&pending.delta, own, layers, &mut combine, hands.store)
                    .unwrap_or_else(|error| fail(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
            Box::new(move || {
                let sums = sums();
                combine.run();
                sums
            })
        } else {
            Box::new(sums)
        };
        let is_little = pending.delta.page_count() <= FEW;
        pending.preparing = Some(match is_little {
            true => hands.helper.do_now(work),
            false => hands.helper.start(work),
        });
        pending
    }

    /// Starts to send whole replicas, without their checksums, to buddies without a query.
    ///
    /// With parity, nothing can be sent yet.
    pub fn ship_copies(&mut self, rt: &Runtime, store: &PageStore) -> mpi::Result<()> {
        if world::get(rt).redundancy.is_parity() {
            return Ok(());
        }
        for (layer, transfer) in self.transfers.iter_mut().enumerate() {
            if self.inquiries.is_over(layer) {
                let outgoing = self
                    .delta
                    .outgoing(Vec::new(), store, SendOptions::default());
                transfer.give(outgoing, self.state.clone());
            } else {
                transfer.withhold();
            }
        }
        self.ship(rt)
    }

    fn ship(&mut self, rt: &Runtime) -> mpi::Result<()> {
        for ((layer, transfer), (to, _)) in self.transfers.iter_mut().enumerate().zip(buddies(rt)) {
            if self.inquiries.is_over(layer) {
                transfer.ship(world::private(rt), to)?;
            }
        }
        fault::point("ship.begin", self.epoch);
        Ok(())
    }

    /// Sends the checksums or, with parity, the changes, after their computation.
    fn prepared(&mut self, rt: &Runtime, sums: &[u64], hands: &mut Hands) -> mpi::Result<()> {
        hands.store.note_sums(self.delta.runs(), sums);
        if !world::get(rt).redundancy.is_parity() {
            let sent = self.transfers.iter_mut().enumerate();
            let sent = sent.filter(|(layer, _)| self.inquiries.is_over(*layer));
            let give = |(_, transfer): (usize, &mut Transfer)| transfer.give_sums(sums.to_vec());
            return sent.map(give).fold(Ok(()), both);
        }
        let description =
            Description::after(&self.delta, &hands.own.image, &self.state, hands.store).encode();
        for (layer, (transfer, changes)) in self.transfers.iter_mut().zip(&self.changes).enumerate()
        {
            let state = if layer == parity::DESCRIBED {
                description.clone()
            } else {
                State::default()
            };
            let (epoch, base) = (self.epoch, Some(self.delta.base()));
            parity::give(
                transfer,
                changes.runs().to_vec(),
                epoch,
                base,
                state,
                hands.store,
            );
        }
        self.ship(rt)
    }

    /// Advances as far as possible; returns the result of the vote once everything is done.
    ///
    /// `context` returns the facts that are recorded beside the replicas.
    pub fn advance(
        &mut self,
        rt: &Runtime,
        mut hands: Hands,
        context: impl FnOnce() -> Context,
    ) -> mpi::Result<Option<Numbers>> {
        if let Some(task) = self.preparing.take_if(|task| hands.helper.is_over(task)) {
            let sums = checksums(hands.helper, task);
            self.prepared(rt, &sums, &mut hands)?;
        }
        for transfer in &mut self.transfers {
            transfer.poll(rt, hands.store)?;
        }
        if self.preparing.is_none() {
            inquiries::answer(&mut self.transfers, &self.delta, &mut hands)?;
            let captured = (&self.delta, &self.state);
            self.inquiries
                .advance(rt, &mut self.transfers, captured, &mut hands)?;
        }
        let is_whole = self.transfers.iter().all(Transfer::is_whole);
        if self.received.is_none() && self.preparing.is_none() && is_whole {
            let payloads: Vec<_> = self
                .transfers
                .iter_mut()
                .filter_map(Transfer::take_received)
                .collect();
            let lengths = payloads.iter().map(|payload| payload.bytes()).collect();
            let received = Received::new(rt, payloads, self.epoch, &mut hands);
            self.received = Some((received, lengths));
        }
        let Some((received, lengths)) = &mut self.received else {
            return Ok(None);
        };
        if self.commit.is_none() {
            if !received.is_ready(hands.helper) {
                return Ok(None);
            }
            fault::point("whole.begin", self.epoch);
            if let Some(legacy) = hands.legacy.as_deref_mut() {
                let own = Copy {
                    image: hands
                        .own
                        .image
                        .after(&self.delta)
                        .without(&self.spared, hands.store),
                    state: self.state.clone(),
                    script: hands.own.script.clone(),
                };
                let partners = received.preview(hands.partners, hands.store);
                legacy.note_whole(
                    rt,
                    Kept {
                        own: &own,
                        partners: &partners,
                    },
                    context(),
                    hands.store,
                );
            }
            fault::point("commit.begin", self.epoch);
            let (epoch, world) = (self.epoch.0 as i64, world::get(rt));
            let parts = (world::worker(rt), world.worker_count);
            // After an error half-way, other workers may still commit.
            let rounds = Rounds::new(world.private, tag::COMMIT, parts, [epoch, -epoch, 0, 0]);
            self.commit.insert(rounds).start()?;
        }
        let Some(rounds) = &mut self.commit else {
            return Ok(None);
        };
        let met = rounds.poll()?;
        if !self.transfers.iter().all(Transfer::is_done) {
            return Ok(None);
        }
        if self.shipped.is_none() {
            self.shipped = Some(self.began.elapsed());
            let sent: Vec<u64> = self.transfers.iter().map(Transfer::bytes).collect();
            let alike: Vec<u64> = (0..sent.len())
                .map(|layer| self.inquiries.alike(layer))
                .collect();
            tell_shipped(rt, self.epoch, self.began, (&sent, &alike), lengths);
        }
        Ok(met)
    }

    /// True if this worker has received everything.
    pub fn is_whole(&self) -> bool {
        self.commit.is_some()
    }

    /// Returns the rate of sending in bytes per nanosecond; `None` before all pages were sent.
    pub fn rate(&self) -> Option<f64> {
        let sent = self.delta.page_count() - self.inquiries.alike(0);
        let bytes = sent * PAGE_SIZE as u64;
        self.shipped
            .map(|took| quietly(|| bytes as f64 / took.as_nanos().max(1) as f64))
    }

    /// Ends all activity, frees the memory of data to send, and returns the rest.
    pub fn end(self, store: &mut PageStore, helper: &Helper) -> Remains {
        if let Some(task) = self.preparing {
            let sums = checksums(helper, task);
            store.note_sums(self.delta.runs(), &sums);
        }
        self.inquiries.end(helper);
        self.transfers
            .into_iter()
            .for_each(|transfer| transfer.give_up(store));
        self.changes
            .into_iter()
            .for_each(|changes| changes.free(store));
        Remains {
            delta: self.delta,
            state: self.state,
            spared: self.spared,
            received: self.received.map(|received| received.0),
        }
    }
}

/// Returns the checksums of captured pages.
///
/// The checksums are wrong if memory of replicas was freed meanwhile.
fn checksums(helper: &Helper, task: Task) -> Vec<u64> {
    let mut sums = helper.end(task);
    if headroom::has_given_up() {
        sums.iter_mut().for_each(|sum| *sum = !*sum);
    }
    sums
}

fn tell_shipped(
    rt: &Runtime,
    epoch: Epoch,
    began: Instant,
    (sent, alike): (&[u64], &[u64]),
    received: &[u64],
) {
    let player = |worker: Worker| world::get(rt).players[worker.index()];
    let (of, ns) = (epoch, events::nanoseconds(began));
    for ((((to, from), &sent), &alike), &received) in buddies(rt).zip(sent).zip(alike).zip(received)
    {
        events::emit(Kind::Ship {
            epoch: of,
            to: player(to),
            bytes: sent,
            alike,
            ns,
        });
        events::emit(Kind::Received {
            epoch: of,
            from: player(from),
            bytes: received,
            ns,
        });
    }
    fault::point("ship.end", epoch);
}
