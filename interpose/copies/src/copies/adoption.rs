//! Adoption of the replicas that a dead process has left ([`super::persistent_store`]).

use super::deferred::lacking;
use super::own_replica::replicas;
use super::persistent_store::{
    ForeignStore, PersistentStore, ReplicaRecord, ReplicaSet, STORE_CONFIG,
};
use super::records::{FoundRecords, ReplicaRecords};
use super::replica::Replica;
use super::replicas::Replicas;
use crate::Runtime;
use crate::reinit::ReplicaStoreFiles;
use crate::{peers, reinit, system_calls, world};
use bincode::config::standard;
use std::fs::File;
use std::io;
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_image::pages::{self, PageRun};
use understudy_image::store::{ArenaFiles, Extent, PageStore, Slot, StoreError};
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Contents of the persistent replica store that this process has adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedReplicas {
    pub worker: Worker,
    /// Process that ran this worker last.
    pub process: ProcessNumber,
    /// Last committed epoch.
    pub committed: Epoch,
    /// Layers (`1 << layer`) of which the process had the replica of that epoch.
    pub layers: u64,
    /// Later epoch whose replicas are complete, in every layer.
    pub whole: Option<Epoch>,
    /// True if the own replica is complete.
    pub has_own: bool,
}

/// Converts slots to sorted, disjoint runs of pages, for the set operations of [`pages`].
fn slots(extents: &[Extent]) -> Vec<PageRun> {
    let run = |extent: &Extent| PageRun::between(extent.first.0, extent.first.0 + extent.len);
    pages::normalise(extents.iter().map(run).collect())
}

/// Converts runs of pages back to slots.
fn extents(slots: &[PageRun]) -> Vec<Extent> {
    let extent = |run: &PageRun| Extent {
        first: Slot(run.start.0),
        len: run.pages,
    };
    slots.iter().map(extent).collect()
}

/// Releases the slots of `released` that `retained` does not contain.
fn release_others(released: ReplicaSet, retained: ReplicaSet, store: &mut PageStore) {
    let only = pages::subtract(&slots(&released.extents()), &slots(&retained.extents()));
    store.release(extents(&only));
}

/// Counts the references to slots that several of the kept replicas share.
fn count_shares(keep: &mut Replicas) {
    let kept = ReplicaSet {
        own: &keep.own,
        stored: &keep.stored,
    };
    keep.store.count_shares(kept.extents());
}

/// Commits the predecessor's later epoch if all workers return to it, or discards it.
pub fn resolve_inherited(keep: &mut Replicas, agreed: Epoch) {
    let Some(persistent) = &mut keep.persistent_store else {
        return;
    };
    let Some((own, stored)) = persistent.inherited.take() else {
        return;
    };
    let later = ReplicaSet {
        own: &own,
        stored: &stored,
    };
    let before = ReplicaSet {
        own: &keep.own,
        stored: &keep.stored,
    };
    // Each slot that only one of the two epochs uses is released once below, even if several
    // replicas refer to the slot. So the reference counts are cleared before, and counted anew
    // afterwards.
    keep.store.count_shares([]);
    if own.image.epoch() == agreed {
        persistent.commit(&mut keep.store);
        release_others(before, later, &mut keep.store);
        (keep.own, keep.stored) = (own, stored);
    } else {
        persistent.discard_next(&mut keep.store);
        release_others(later, before, &mut keep.store);
    }
    count_shares(keep);
}

/// Reads a replica store that the node manager has passed since the last call.
///
/// Returns the number of the job's recoveries at the time of the predecessor's record; `None`
/// without a usable record.
pub fn read_passed_store(rt: &Runtime) -> Option<u32> {
    if let Some(passed) = reinit::take_store(rt) {
        peers::record_exit_status(passed.from, passed.status);
        match read_store(passed) {
            Ok(found) if found.last().is_some() => rt.copies.found.set(Some(found)),
            other => {
                let why = other
                    .err()
                    .map_or("nothing is recorded".into(), |error| error.to_string());
                log::warn!("{}", message::stored_replicas_unusable(why));
                reinit::report_no_store();
            }
        }
    }
    let found = rt.copies.found.borrow();
    let last = found.as_ref().and_then(ForeignStore::last);
    last.map(|record| record.recoveries)
}

/// Returns the state of the job that the predecessor has recorded for its replacement.
pub fn job_state_of_predecessor(rt: &Runtime) -> Option<Vec<u8>> {
    let found = rt.copies.found.borrow();
    Some(found.as_ref()?.last()?.job_state.clone())
}

fn read_store(passed: ReplicaStoreFiles) -> io::Result<ForeignStore> {
    let [pages, index] = passed.files.map(|file| Arc::new(File::from(file)));
    let files = ArenaFiles { pages, index };
    let (records, FoundRecords { committed, whole }) = ReplicaRecords::open(&files)?;
    let decode = |bytes: Option<Vec<u8>>| -> io::Result<Option<ReplicaRecord>> {
        let decoded = bytes.map(|bytes| bincode::decode_from_slice(&bytes, standard()));
        let record = decoded.transpose().map_err(io::Error::other)?;
        Ok(record.map(|(record, _)| record))
    };
    Ok(ForeignStore {
        committed: decode(committed)?,
        whole: decode(whole)?,
        files,
        records,
    })
}

/// Replaces all replicas in this process by those of a dead process.
///
/// Returns `None` if the dead process has left no usable replicas.
pub fn adopt(rt: &Runtime) -> Option<AdoptedReplicas> {
    let keep = &mut replicas(rt);
    read_passed_store(rt);
    let got = adopt_store(rt, rt.copies.found.take()?, keep);
    if got.is_none() {
        reinit::report_no_store();
    }
    got
}

fn adopt_store(rt: &Runtime, store: ForeignStore, keep: &mut Replicas) -> Option<AdoptedReplicas> {
    let last = store.last()?;
    let (worker, process) = (last.worker, last.process);
    let ForeignStore {
        files,
        records,
        committed,
        whole,
    } = store;
    let extents_of = |record: &Option<ReplicaRecord>| {
        record
            .as_ref()
            .map_or(Vec::new(), |record| record.kept().extents())
    };
    let (first, second) = (extents_of(&committed), extents_of(&whole));
    let used = extents(&slots(&[&first[..], &second].concat()));
    let store = PageStore::in_files(STORE_CONFIG, files.clone(), &used);
    let unusable = |error: &StoreError| {
        log::warn!(
            "{}",
            message::stored_replicas_unusable(system_calls::error_chain(error))
        )
    };
    let mut store = store.inspect_err(unusable).ok()?;
    store.protect(used);
    let kept = keep.stored.len();
    let none = || {
        (
            Replica::default(),
            (0..kept).map(|_| Replica::default()).collect(),
        )
    };
    let parts = |record: Option<ReplicaRecord>| record.map(|record| (record.own, record.stored));
    (keep.own, keep.stored) = parts(committed).unwrap_or_else(none);
    let inherited = parts(whole);
    let later = inherited.as_ref().map(|(own, _)| own);
    let all_layers = world::get(rt).redundancy.all_layers(worker);
    let got = AdoptedReplicas {
        worker,
        process,
        committed: keep.own.image.epoch(),
        layers: all_layers & !lacking(rt, &keep.own, &keep.stored),
        whole: later.map(|own| own.image.epoch()),
        has_own: [Some(&keep.own), later]
            .into_iter()
            .flatten()
            .all(|own| own.image.absent().is_empty()),
    };
    keep.store = store;
    count_shares(keep);
    keep.persistent_store = Some(PersistentStore {
        files,
        records,
        committed: first,
        whole: second,
        reported_worker: Some(worker),
        inherited,
    });
    Some(got)
}
