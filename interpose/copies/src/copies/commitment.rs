//! The pending checkpoint, from its first message until it is committed or discarded.

use super::adoption;
use super::buddies::buddies_by_layer;
use super::deduplication::share_equal_pages;
use super::deferred::lacking;
use super::own_replica::{next_epoch, replicas};
use super::pending::{CapturedState, PendingCheckpoint};
use super::persistent_store::{RecordContext, ReplicaSet};
use super::replicas::Replicas;
use super::transfer::Transfer;
use crate::Runtime;
use crate::abort::abort_with_error;
use crate::max_allreduce::Numbers;
use crate::work_flags::{self, PENDING};
use crate::{annotations, disk, events, fault, system_calls, user, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages;
use understudy_mpi as mpi;
use understudy_numbers::Epoch;

/// Number of unused pages (16 MiB) that are not worth returning to the kernel.
const MAX_IDLE_PAGES: u64 = 4096;
/// Number of successive epochs with low use after which memory is returned.
const MAX_LOW_USE_EPOCHS: u32 = 3;

/// True if a checkpoint is pending.
#[inline]
pub fn is_pending() -> bool {
    work_flags::is_set(PENDING)
}

/// Posts the receives for the heads of the replicas from other workers.
///
/// # Errors
/// Fails with the error of the MPI library; `transfers` is empty then.
pub fn post_receives(rt: &Runtime, transfers: &mut Vec<Transfer>) -> mpi::Result<()> {
    for (_, from) in buddies_by_layer(rt) {
        let mut transfer = Transfer::receive_only();
        let expected = transfer.post_head(world::private(rt), from);
        transfers.push(transfer);
        if expected.is_err() {
            transfers.clear();
            return expected;
        }
    }
    Ok(())
}

/// Prepares memory for the next capture, in the second half of an interval.
pub fn prepare(rt: &Runtime) {
    let next = next_epoch(rt);
    let keep = &mut *replicas(rt);
    if keep.pending.is_none() {
        let known = keep.own.image.page_count();
        keep.preparation.prepare(rt, next, known, &mut keep.store);
    }
}

/// Ends the preparation of memory, since a cut begins.
pub fn end_preparation(rt: &Runtime) {
    replicas(rt).preparation.end();
}

/// Makes the captured checkpoint pending and starts to send it.
///
/// # Errors
/// Fails with the error of the MPI library.
pub fn ship(rt: &Runtime, captured: CapturedState, transfers: Vec<Transfer>) -> mpi::Result<()> {
    let keep = &mut *replicas(rt);
    keep.preparation.begin_interval();
    let (_, parts) = keep.pending_and_parts();
    let pending = PendingCheckpoint::begin(rt, captured, transfers, parts);
    work_flags::set(PENDING);
    keep.pending.insert(pending).ship_copies(rt, &keep.store)
}

/// Returns the facts that are recorded beside the replicas.
fn record_context(rt: &Runtime, job_state: Vec<u8>) -> RecordContext {
    RecordContext {
        job_state,
        reversible: annotations::saved_annotations(rt).reversible_pages(),
    }
}

/// Advances the pending checkpoint; returns the result of the vote once it is complete.
///
/// `job_state` returns the state of the job that a replacement needs.
///
/// # Errors
/// Fails with the error of the MPI library.
pub fn advance(rt: &Runtime, job_state: impl Fn() -> Vec<u8>) -> mpi::Result<Option<Numbers>> {
    let keep = &mut *replicas(rt);
    let (pending, parts) = keep.pending_and_parts();
    match pending {
        Some(pending) => pending.advance(rt, parts, || record_context(rt, job_state())),
        None => Ok(None),
    }
}

/// Returns memory that a large parity has used, once several epochs have `used` far less.
///
/// The first touch of memory costs more than all other work on it. So memory is not returned after
/// every small epoch.
fn return_unused(rt: &Runtime, keep: &mut Replicas, used: u64) {
    if !world::get(rt).redundancy.is_parity() || keep.store.idle() < 2 * used + MAX_IDLE_PAGES {
        keep.low_use_epochs = 0;
        return;
    }
    keep.low_use_epochs += 1;
    if keep.low_use_epochs == MAX_LOW_USE_EPOCHS {
        keep.low_use_epochs = 0;
        if let Err(error) = keep.store.give_back(used) {
            log::debug!(
                "memory of replicas is not freed: {}",
                system_calls::error_chain(&error)
            );
        }
    }
}

/// Returns the layers whose replica the last recovery has deferred.
fn deferred_layers(rt: &Runtime, keep: &Replicas) -> Vec<usize> {
    let lacking = lacking(rt, &keep.own, &keep.stored);
    let layers = 0..keep.stored.len();
    layers.filter(|layer| lacking & (1 << layer) != 0).collect()
}

/// Commits the pending epoch, for this worker and for the replicas that it stores.
pub fn commit(rt: &Runtime) {
    let Some((epoch, began)) = commit_pending(rt, &mut replicas(rt)) else {
        return;
    };
    events::emit(Kind::Commit {
        epoch,
        ns: events::nanoseconds(began),
    });
    fault::point("commit.end", epoch);
}

/// Commits the pending epoch; returns its number and the time of its beginning.
///
/// `None` if no epoch is pending, or if it is incomplete here.
fn commit_pending(rt: &Runtime, keep: &mut Replicas) -> Option<(Epoch, Instant)> {
    let pending = keep.pending.take_if(|pending| pending.is_complete())?;
    work_flags::clear(PENDING);
    let (epoch, began) = (pending.epoch, pending.began);
    keep.committed_at = began;
    keep.rate = pending.rate().map_or(keep.rate, |rate| rate.max(keep.rate));
    if let Some(persistent) = &mut keep.persistent_store {
        persistent.commit(&mut keep.store);
    }
    let remains = pending.finish(&mut keep.store, &keep.helper);
    // With parity, an epoch uses memory for the changes to send, for the received changes, and for
    // the resulting parity.
    let used = 3 * remains.delta.page_count();
    if keep
        .own
        .image
        .apply(remains.delta, &mut keep.store)
        .is_err()
    {
        abort_with_error(
            rt,
            message::CHECKPOINTS_NOT_IN_ORDER,
            &std::io::Error::other("internal error"),
        );
    }
    keep.own.state = remains.state;
    if let Some(received) = remains.received {
        let deferred = deferred_layers(rt, keep);
        received.apply(rt, &mut keep.stored, &mut keep.store, &keep.helper);
        for layer in deferred {
            share_equal_pages(rt, keep, layer);
        }
    }
    keep.whole_layers = 0;
    keep.own.image.elide(&remains.elided, &mut keep.store);
    return_unused(rt, keep, used);
    events::set_epoch(epoch);
    // The undo logs since the previous epoch stay: if this rank dies now, other workers may not
    // have committed the new epoch, and all workers then return to the previous one.
    let before = Epoch(epoch.0.saturating_sub(1));
    user::forget_before(
        rt,
        disk::oldest_needed(rt).map_or(before, |oldest| oldest.min(before)),
    );
    disk::write_if_due(
        rt,
        &mut keep.store,
        &keep.own.image,
        &keep.own.state.bytes,
        world::worker(rt),
    );
    Some((epoch, began))
}

/// Stops the pending checkpoint after a failure; returns its epoch if its replicas are complete.
pub fn interrupt(rt: &Runtime) -> Option<Epoch> {
    work_flags::clear(PENDING);
    let keep = &mut *rt.copies.keep.borrow_mut();
    let Replicas {
        orphans,
        store,
        pending,
        ..
    } = keep.as_mut()?;
    orphans
        .drain(..)
        .for_each(|transfer| transfer.give_up(store));
    let pending = pending.as_ref()?;
    pending.is_complete().then_some(pending.epoch)
}

/// Returns two costs, in nanoseconds; 0 if unknown.
///
/// The first is that of a return to the committed epoch instead of the pending one; the second is
/// that of the transfer of a whole replica.
pub fn recovery_costs(rt: &Runtime) -> (u64, u64) {
    let keep = rt.copies.keep.borrow();
    let Some(keep) = keep.as_ref() else {
        return (0, 0);
    };
    let pending = keep
        .pending
        .as_ref()
        .map(|pending| pending.began.duration_since(keep.committed_at));
    let bytes = keep.own.image.page_count() * PAGE_SIZE as u64;
    let sent = || {
        if keep.rate > 0.0 {
            bytes as f64 / keep.rate
        } else {
            0.0
        }
    };
    (
        pending.map_or(0, |time| time.as_nanos() as u64),
        system_calls::with_exceptions_masked(|| sent() as u64),
    )
}

/// True if the own replica, committed or pending, lacks pages that functions can restore.
pub fn is_reduced(rt: &Runtime) -> bool {
    let undoable = annotations::saved_annotations(rt).reversible_pages();
    let lacks = |keep: &Replicas| {
        let elides = |pending: &PendingCheckpoint| !pending.elided.is_empty();
        !absent_pages::among(keep.own.image.absent(), &undoable).is_empty()
            || keep.pending.as_ref().is_some_and(elides)
    };
    rt.copies.keep.borrow().as_ref().is_some_and(lacks)
}

/// Commits or discards the pending epoch after a failure.
///
/// `agreed` is the epoch to which all workers return.
pub fn resolve(rt: &Runtime, agreed: Epoch) {
    if let Some(keep) = &mut *rt.copies.keep.borrow_mut() {
        adoption::resolve_inherited(keep, agreed);
    }
    let is_agreed = |pending: &PendingCheckpoint| pending.epoch == agreed && pending.is_complete();
    let keeps = |keep: &Replicas| keep.pending.as_ref().is_some_and(is_agreed);
    if rt.copies.keep.borrow().as_ref().is_some_and(keeps) {
        return commit(rt);
    }
    discard_pending(rt);
}

/// Discards the pending epoch.
pub fn discard_pending(rt: &Runtime) {
    let Some(keep) = &mut *rt.copies.keep.borrow_mut() else {
        return;
    };
    let Some(pending) = keep.pending.take() else {
        return;
    };
    if let Some(persistent) = &mut keep.persistent_store {
        persistent.discard_next(&mut keep.store);
    }
    let remains = pending.finish(&mut keep.store, &keep.helper);
    keep.tracker.abandon(remains.delta, &mut keep.store);
    if let Some(received) = remains.received {
        received.discard(&mut keep.store, &keep.helper);
    }
}

/// Invalidates the records, because all workers return to an epoch on disk.
pub fn invalidate_store(rt: &Runtime) {
    let Some(keep) = &mut *rt.copies.keep.borrow_mut() else {
        return;
    };
    adoption::resolve_inherited(keep, Epoch::NONE);
    if let Some(persistent) = &mut keep.persistent_store {
        persistent.invalidate(&mut keep.store);
    }
}

/// Records the replicas in this process after a recovery.
pub fn record_replicas(rt: &Runtime, job_state: Vec<u8>) {
    let Replicas {
        persistent_store: persistent,
        own,
        stored,
        store,
        committed_at: since,
        ..
    } = &mut *replicas(rt);
    *since = Instant::now();
    if let Some(persistent) = persistent {
        persistent.record_committed(
            rt,
            ReplicaSet { own, stored },
            record_context(rt, job_state),
            store,
        );
    }
}
