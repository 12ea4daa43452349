//! A pending checkpoint, from its capture to the vote that commits it.

use super::buddies::buddies_by_layer;
use super::checkpoint_parts::CheckpointParts;
use super::page_queries::{self, PageQueries};
use super::parity_transfer::{self, EpochDescription};
use super::persistent_store::{RecordContext, ReplicaSet};
use super::received::ReceivedReplicas;
use super::replica::{EncodedState, Replica};
use super::transfer::Transfer;
use crate::abort::abort_with_error;
use crate::control_messages::tag;
use crate::max_allreduce::{MaxAllreduce, Numbers};
use crate::system_calls::with_exceptions_masked;
use crate::{events, fault, headroom, world};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::helper::{Helper, HelperTask, HelperWork};
use understudy_image::image_delta::Delta;
use understudy_image::pages::PageRun;
use understudy_image::parity::XorPlan;
use understudy_image::store::PageStore;
use understudy_image::wire::SendOptions;
use understudy_image::{parity as layers, sums};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_mpi::combine_results;
use understudy_numbers::{Epoch, Worker};

/// Maximum number of pages (128 KiB) that are processed without waking the helper thread.
const MAX_PAGES_WITHOUT_THREAD: u64 = 32;

/// Captured state of a checkpoint.
pub struct CapturedState {
    /// Changed pages.
    pub delta: Delta,
    /// State outside of pages.
    pub state: EncodedState,
    /// Pages that are elided here after the commit (sorted).
    pub elided: Vec<PageRun>,
    pub began: Instant,
}

/// Pending checkpoint.
pub struct PendingCheckpoint {
    pub epoch: Epoch,
    pub delta: Delta,
    /// State outside of pages.
    pub state: EncodedState,
    /// Pages that this process elides.
    pub elided: Vec<PageRun>,
    pub began: Instant,
    /// Computation of the delta's checksums and of its changes in parity.
    preparing: Option<HelperTask>,
    /// Changes of the parity by the delta, per layer; empty without parity.
    changes: Vec<Delta>,
    /// Deduplication queries that precede the pages.
    queries: PageQueries,
    /// Transfers to the buddy and from the other worker of each layer.
    transfers: Vec<Transfer>,
    /// Complete received data, and their length by layer.
    received: Option<(ReceivedReplicas, Vec<u64>)>,
    /// Vote on the commit, once this worker has received everything.
    commit: Option<MaxAllreduce>,
    /// Time until all data were sent, too.
    shipped: Option<Duration>,
}

/// Result of a finished checkpoint, to be applied or discarded.
pub struct CheckpointResult {
    pub delta: Delta,
    /// State outside of pages.
    pub state: EncodedState,
    /// Pages that are elided here (sorted).
    pub elided: Vec<PageRun>,
    /// Data received from other workers.
    pub received: Option<ReceivedReplicas>,
}

impl PendingCheckpoint {
    /// Begins a checkpoint for the captured state; `transfers` are ready to receive.
    pub fn begin(
        rt: &Runtime,
        captured: CapturedState,
        transfers: Vec<Transfer>,
        hands: CheckpointParts,
    ) -> PendingCheckpoint {
        let CapturedState {
            delta,
            state,
            elided,
            began,
        } = captured;
        let mut pending = PendingCheckpoint {
            queries: PageQueries::determine(rt, &delta, hands.query_histories),
            epoch: delta.epoch(),
            delta,
            state,
            elided,
            began,
            preparing: None,
            changes: Vec::new(),
            transfers,
            received: None,
            commit: None,
            shipped: None,
        };
        let sums = sums::sums_work(pending.delta.runs(), hands.store);
        let work: HelperWork = if world::get(rt).redundancy.is_parity() {
            let mut combine = XorPlan::default();
            let (layers, own) = (pending.transfers.len(), &hands.own.image);
            pending.changes =
                layers::parity_changes(&pending.delta, own, layers, &mut combine, hands.store)
                    .unwrap_or_else(|error| {
                        abort_with_error(rt, message::NO_MEMORY_FOR_REPLICAS, &error)
                    });
            Box::new(move || {
                let sums = sums();
                combine.execute();
                sums
            })
        } else {
            Box::new(sums)
        };
        let is_little = pending.delta.page_count() <= MAX_PAGES_WITHOUT_THREAD;
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
            if self.queries.is_over(layer) {
                let outgoing = self
                    .delta
                    .outgoing(Vec::new(), store, SendOptions::default());
                transfer.set_outgoing(outgoing, self.state.clone());
            } else {
                transfer.postpone();
            }
        }
        self.ship(rt)
    }

    fn ship(&mut self, rt: &Runtime) -> mpi::Result<()> {
        for ((layer, transfer), (to, _)) in self
            .transfers
            .iter_mut()
            .enumerate()
            .zip(buddies_by_layer(rt))
        {
            if self.queries.is_over(layer) {
                transfer.ship(world::private(rt), to)?;
            }
        }
        fault::point("ship.begin", self.epoch);
        Ok(())
    }

    /// Sends the checksums or, with parity, the changes, after their computation.
    fn send_checksums(
        &mut self,
        rt: &Runtime,
        sums: &[u64],
        hands: &mut CheckpointParts,
    ) -> mpi::Result<()> {
        hands.store.set_sums(self.delta.runs(), sums);
        if !world::get(rt).redundancy.is_parity() {
            let sent = self.transfers.iter_mut().enumerate();
            let sent = sent.filter(|(layer, _)| self.queries.is_over(*layer));
            let give =
                |(_, transfer): (usize, &mut Transfer)| transfer.send_sums_later(sums.to_vec());
            return sent.map(give).fold(Ok(()), combine_results);
        }
        let description =
            EpochDescription::after(&self.delta, &hands.own.image, &self.state, hands.store)
                .encode();
        for (layer, (transfer, changes)) in self.transfers.iter_mut().zip(&self.changes).enumerate()
        {
            let state = if layer == parity_transfer::DESCRIPTION_LAYER {
                description.clone()
            } else {
                EncodedState::default()
            };
            let (epoch, base) = (self.epoch, Some(self.delta.base()));
            parity_transfer::add_pages(
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
        mut hands: CheckpointParts,
        context: impl FnOnce() -> RecordContext,
    ) -> mpi::Result<Option<Numbers>> {
        if let Some(task) = self.preparing.take_if(|task| hands.helper.poll(task)) {
            let sums = checksums(hands.helper, task);
            self.send_checksums(rt, &sums, &mut hands)?;
        }
        for transfer in &mut self.transfers {
            transfer.poll(rt, hands.store)?;
        }
        if self.preparing.is_none() {
            page_queries::answer_queries(&mut self.transfers, &self.delta, &mut hands)?;
            let captured = (&self.delta, &self.state);
            self.queries
                .advance(rt, &mut self.transfers, captured, &mut hands)?;
        }
        let is_whole = self.transfers.iter().all(Transfer::is_received);
        if self.received.is_none() && self.preparing.is_none() && is_whole {
            let payloads: Vec<_> = self
                .transfers
                .iter_mut()
                .filter_map(Transfer::take_received)
                .collect();
            let lengths = payloads.iter().map(|payload| payload.bytes()).collect();
            let received = ReceivedReplicas::new(rt, payloads, self.epoch, &mut hands);
            self.received = Some((received, lengths));
        }
        let Some((received, lengths)) = &mut self.received else {
            return Ok(None);
        };
        if self.commit.is_none() {
            if !received.poll_complete(hands.helper) {
                return Ok(None);
            }
            fault::point("whole.begin", self.epoch);
            if let Some(persistent) = hands.persistent_store.as_deref_mut() {
                let own = Replica {
                    image: hands
                        .own
                        .image
                        .after(&self.delta)
                        .without_pages(&self.elided, hands.store),
                    state: self.state.clone(),
                    script: hands.own.script.clone(),
                };
                let stored = received.preview(hands.stored, hands.store);
                persistent.record_complete(
                    rt,
                    ReplicaSet {
                        own: &own,
                        stored: &stored,
                    },
                    context(),
                    hands.store,
                );
            }
            fault::point("commit.begin", self.epoch);
            let (epoch, world) = (self.epoch.0 as i64, world::get(rt));
            let parts = (world::worker(rt), world.worker_count);
            // After an error half-way, other workers may still commit.
            let rounds =
                MaxAllreduce::new(world.private, tag::COMMIT, parts, [epoch, -epoch, 0, 0]);
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
                .map(|layer| self.queries.equal_pages(layer))
                .collect();
            report_shipped(rt, self.epoch, self.began, (&sent, &alike), lengths);
        }
        Ok(met)
    }

    /// True if this worker has received everything.
    pub fn is_complete(&self) -> bool {
        self.commit.is_some()
    }

    /// Returns the rate of sending in bytes per nanosecond; `None` before all pages were sent.
    pub fn rate(&self) -> Option<f64> {
        let sent = self.delta.page_count() - self.queries.equal_pages(0);
        let bytes = sent * PAGE_SIZE as u64;
        self.shipped
            .map(|took| with_exceptions_masked(|| bytes as f64 / took.as_nanos().max(1) as f64))
    }

    /// Ends all activity, frees the memory of data to send, and returns the rest.
    pub fn finish(self, store: &mut PageStore, helper: &Helper) -> CheckpointResult {
        if let Some(task) = self.preparing {
            let sums = checksums(helper, task);
            store.set_sums(self.delta.runs(), &sums);
        }
        self.queries.finish(helper);
        self.transfers
            .into_iter()
            .for_each(|transfer| transfer.give_up(store));
        self.changes
            .into_iter()
            .for_each(|changes| changes.free(store));
        CheckpointResult {
            delta: self.delta,
            state: self.state,
            elided: self.elided,
            received: self.received.map(|received| received.0),
        }
    }
}

/// Returns the checksums of captured pages.
///
/// The checksums are wrong if memory of replicas was freed meanwhile.
fn checksums(helper: &Helper, task: HelperTask) -> Vec<u64> {
    let mut sums = helper.wait(task);
    if headroom::is_memory_released() {
        sums.iter_mut().for_each(|sum| *sum = !*sum);
    }
    sums
}

fn report_shipped(
    rt: &Runtime,
    epoch: Epoch,
    began: Instant,
    (sent, alike): (&[u64], &[u64]),
    received: &[u64],
) {
    let process = |worker: Worker| world::get(rt).process_of[worker.index()];
    let (of, ns) = (epoch, events::nanoseconds(began));
    for ((((to, from), &sent), &alike), &received) in
        buddies_by_layer(rt).zip(sent).zip(alike).zip(received)
    {
        events::emit(Kind::Ship {
            epoch: of,
            to: process(to),
            bytes: sent,
            alike,
            ns,
        });
        events::emit(Kind::Received {
            epoch: of,
            from: process(from),
            bytes: received,
            ns,
        });
    }
    fault::point("ship.end", epoch);
}
