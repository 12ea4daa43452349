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
use understudy_policy::pending_stages::{PendingAction, PendingStage};

/// Maximum number of pages (128 KiB) that are processed without waking the helper thread.
const MAX_PAGES_WITHOUT_THREAD: u64 = 32;

/// Captured state of a checkpoint.
pub struct CapturedState {
    /// Changed pages.
    pub delta: Delta,
    /// State outside of pages.
    pub state: EncodedState,
    /// Pages that this process elides after the commit (sorted).
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
    /// Transfer of each layer.
    ///
    /// A transfer sends to the buddy of the layer, and receives from the worker whose buddy in this
    /// layer is this worker.
    transfers: Vec<Transfer>,
    /// Complete received data, and their length by layer.
    received: Option<(ReceivedReplicas, Vec<u64>)>,
    stage: PendingStage,
    /// Vote on the commit, and its result.
    commit: Option<MaxAllreduce>,
    result: Option<Numbers>,
    /// Time from the beginning of the checkpoint until all data were sent.
    shipped: Option<Duration>,
}

/// Result of a finished checkpoint, to be applied or discarded.
pub struct CheckpointResult {
    pub delta: Delta,
    /// State outside of pages.
    pub state: EncodedState,
    /// Pages that this process elides (sorted).
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
        parts: CheckpointParts,
    ) -> PendingCheckpoint {
        let CapturedState {
            delta,
            state,
            elided,
            began,
        } = captured;
        let mut pending = PendingCheckpoint {
            queries: PageQueries::determine(rt, &delta, &parts),
            epoch: delta.epoch(),
            delta,
            state,
            elided,
            began,
            preparing: None,
            changes: Vec::new(),
            transfers,
            received: None,
            stage: PendingStage::Preparing,
            commit: None,
            result: None,
            shipped: None,
        };
        let sums = sums::sums_work(pending.delta.runs(), parts.store);
        let work: HelperWork = if world::get(rt).redundancy.is_parity() {
            let mut combine = XorPlan::default();
            let (layers, own) = (pending.transfers.len(), &parts.own.image);
            pending.changes =
                layers::parity_changes(&pending.delta, own, layers, &mut combine, parts.store)
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
            true => parts.helper.do_now(work),
            false => parts.helper.start(work),
        });
        pending
    }

    /// Starts to send the changed pages, without checksums, to buddies without a query.
    ///
    /// With parity, nothing can be sent before the changes of the parity are computed.
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
        let layers = self.transfers.iter_mut().zip(buddies_by_layer(rt));
        for (layer, (transfer, (to, _))) in layers.enumerate() {
            if self.queries.is_over(layer) {
                transfer.ship(world::private(rt), to)?;
            }
        }
        fault::point("ship.begin", self.epoch);
        Ok(())
    }

    /// Sends the checksums or, with parity, the changes, after their computation.
    fn send_checksums(&mut self, rt: &Runtime, parts: &mut CheckpointParts) -> mpi::Result<()> {
        let Some(task) = self.preparing.take() else {
            return Ok(());
        };
        let sums = &checksums(parts.helper, task);
        parts.store.set_sums(self.delta.runs(), sums);
        if !world::get(rt).redundancy.is_parity() {
            let sent = self.transfers.iter_mut().enumerate();
            let sent = sent.filter(|(layer, _)| self.queries.is_over(*layer));
            let give =
                |(_, transfer): (usize, &mut Transfer)| transfer.send_sums_later(sums.to_vec());
            return sent.map(give).fold(Ok(()), combine_results);
        }
        let description =
            EpochDescription::after(&self.delta, &parts.own.image, &self.state, parts.store)
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
                parts.store,
            );
        }
        self.ship(rt)
    }

    /// Advances as far as possible ([`understudy_policy::pending_stages`]).
    ///
    /// Returns the result of the vote once everything is done. `context` returns the facts that are
    /// recorded beside the replicas.
    ///
    /// # Errors
    /// Fails with the error of the MPI library.
    pub fn advance(
        &mut self,
        rt: &Runtime,
        mut parts: CheckpointParts,
        context: impl Fn() -> RecordContext,
    ) -> mpi::Result<Option<Numbers>> {
        loop {
            self.poll_messages(rt, &mut parts)?;
            if !self.is_stage_over(parts.helper) {
                return Ok(None);
            }
            match self.stage.step() {
                Some(PendingAction::SendChecksums) => self.send_checksums(rt, &mut parts)?,
                Some(PendingAction::Combine) => self.combine(rt, &mut parts),
                Some(PendingAction::RecordAndVote) => {
                    self.record(rt, &mut parts, &context);
                    self.vote(rt)?;
                }
                Some(PendingAction::Report) => self.report_shipped(rt),
                Some(PendingAction::Commit) | None => return Ok(self.result),
            }
        }
    }

    /// Makes progress with all messages of the checkpoint.
    fn poll_messages(&mut self, rt: &Runtime, parts: &mut CheckpointParts) -> mpi::Result<()> {
        for transfer in &mut self.transfers {
            transfer.poll(rt, parts.store)?;
        }
        if self.stage > PendingStage::Preparing {
            page_queries::answer_queries(&mut self.transfers, &self.delta, parts)?;
            let captured = (&self.delta, &self.state);
            self.queries
                .advance(rt, &mut self.transfers, captured, parts)?;
        }
        if let Some(vote) = &mut self.commit
            && self.result.is_none()
        {
            self.result = vote.poll()?;
        }
        Ok(())
    }

    /// True if the event that ends this worker's stage has happened.
    fn is_stage_over(&mut self, helper: &Helper) -> bool {
        match self.stage {
            PendingStage::Preparing => match &mut self.preparing {
                Some(task) => helper.poll(task),
                None => true,
            },
            PendingStage::Receiving => self.transfers.iter().all(Transfer::is_received),
            PendingStage::Combining => match &mut self.received {
                Some((received, _)) => received.poll_complete(helper),
                None => false,
            },
            PendingStage::Shipping => self.transfers.iter().all(Transfer::is_done),
            PendingStage::Voting => self.result.is_some(),
            PendingStage::Committed => true,
        }
    }

    /// Starts to combine the received data with the stored replicas.
    fn combine(&mut self, rt: &Runtime, parts: &mut CheckpointParts) {
        let payloads: Vec<_> = self
            .transfers
            .iter_mut()
            .filter_map(Transfer::take_received)
            .collect();
        let lengths = payloads.iter().map(|payload| payload.bytes()).collect();
        let received = ReceivedReplicas::new(rt, payloads, self.epoch, parts);
        self.received = Some((received, lengths));
    }

    /// Records the complete replicas in the persistent replica store, if there is one.
    fn record(
        &mut self,
        rt: &Runtime,
        parts: &mut CheckpointParts,
        context: &impl Fn() -> RecordContext,
    ) {
        fault::point("whole.begin", self.epoch);
        let (Some(persistent), Some((received, _))) =
            (parts.persistent_store.as_deref_mut(), &self.received)
        else {
            return;
        };
        let image = parts.own.image.after(&self.delta);
        let own = Replica {
            image: image.without_pages(&self.elided, parts.store),
            state: self.state.clone(),
            replay_plan: parts.own.replay_plan.clone(),
        };
        let stored = received.preview(parts.stored, parts.store);
        let replicas = ReplicaSet {
            own: &own,
            stored: &stored,
        };
        persistent.record_complete(rt, replicas, context(), parts.store);
    }

    /// Starts the vote; after an error half-way, other workers may still commit.
    fn vote(&mut self, rt: &Runtime) -> mpi::Result<()> {
        fault::point("commit.begin", self.epoch);
        let (epoch, world) = (self.epoch.0 as i64, world::get(rt));
        let me = (world::worker(rt), world.worker_count);
        let vote = MaxAllreduce::new(world.private, tag::COMMIT, me, [epoch, -epoch, 0, 0]);
        self.commit.insert(vote).start()
    }

    /// Reports the bytes that were sent and received, by layer.
    fn report_shipped(&mut self, rt: &Runtime) {
        self.shipped = Some(self.began.elapsed());
        let process = |worker: Worker| world::get(rt).process_of[worker.index()];
        let (epoch, ns) = (self.epoch, events::nanoseconds(self.began));
        let received = self.received.iter().flat_map(|(_, bytes)| bytes);
        let transfers = self.transfers.iter().zip(received).enumerate();
        for ((to, from), (layer, (transfer, &received))) in buddies_by_layer(rt).zip(transfers) {
            events::emit(Kind::Ship {
                epoch,
                to: process(to),
                bytes: transfer.bytes(),
                alike: self.queries.equal_pages(layer),
                ns,
            });
            events::emit(Kind::Received {
                epoch,
                from: process(from),
                bytes: received,
                ns,
            });
        }
        fault::point("ship.end", epoch);
    }

    /// True if this worker has voted for the commit.
    pub fn is_complete(&self) -> bool {
        self.stage.is_complete()
    }

    /// Returns the rate of sending in bytes per nanosecond; `None` before all pages were sent.
    pub fn rate(&self) -> Option<f64> {
        let sent = self.delta.page_count() - self.queries.equal_pages(0);
        let bytes = sent * PAGE_SIZE as u64;
        self.shipped
            .map(|took| with_exceptions_masked(|| bytes as f64 / took.as_nanos().max(1) as f64))
    }

    /// Ends all activity, frees the memory of data to send, and returns the result.
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
/// The checksums are inverted if memory of replicas was freed meanwhile: right checksums of freed
/// pages would hide the damage.
fn checksums(helper: &Helper, task: HelperTask) -> Vec<u64> {
    let mut sums = helper.wait(task);
    if headroom::is_memory_released() {
        sums.iter_mut().for_each(|sum| *sum = !*sum);
    }
    sums
}
