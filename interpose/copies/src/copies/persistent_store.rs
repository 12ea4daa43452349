//! The persistent replica store: replicas that outlive their process.
//!
//! Pages and checksums are in files in memory ([`ArenaFiles`]), of which the node manager has
//! descriptors, too. All other data that the use of the replicas requires are recorded in one of
//! these files ([`ReplicaRecords`]): before this process reports to other processes that its
//! replicas of an epoch are complete, and again when the epoch is committed. Slots to which a
//! record refers are not reused ([`PageStore::protect`]). So the last committed epoch is available
//! whenever this process dies, and the next epoch as soon as other processes may commit it.
//!
//! The process that receives the files adopts them ([`super::adoption`]) without a copy.

use super::records::{RecordState, ReplicaRecords};
use super::replica::Replica;
use crate::fault::MissingFeature;
use crate::reinit;
use crate::{fault, system_calls, world};
use bincode::config::standard;
use understudy_catalogue::message;
use understudy_image::absent_pages;
use understudy_image::image_delta::SlotRun;
use understudy_image::pages::PageRun;
use understudy_image::store::{ArenaFiles, Extent, PageStore, StoreConfig, StoreError};
use understudy_job::Runtime;
use understudy_numbers::{ProcessNumber, Worker};

/// Configuration that reserves addresses for 1 TiB; only used pages take memory.
pub const STORE_CONFIG: StoreConfig = StoreConfig {
    base: None,
    capacity_pages: 1 << 28,
    dont_fork: true,
};

/// Replicas of one epoch in this process.
#[derive(Clone, Copy)]
pub struct ReplicaSet<'a> {
    pub own: &'a Replica,
    /// Replicas of other workers, by layer.
    pub stored: &'a [Replica],
}

/// Facts beside the replicas, for a record.
pub struct RecordContext {
    /// State of the job that a replacement needs.
    pub job_state: Vec<u8>,
    /// Pages (sorted) that functions of the program restore (`understudy_reversible`).
    pub reversible: Vec<PageRun>,
}

/// Record of replicas, for writing.
#[derive(bincode::Encode)]
struct WrittenRecord<'a> {
    worker: Worker,
    process: ProcessNumber,
    recoveries: u32,
    job_state: Vec<u8>,
    own: &'a Replica,
    stored: &'a [Replica],
}

/// Record of replicas, for reading; its fields have the order of [`WrittenRecord`].
#[derive(bincode::Decode)]
pub struct ReplicaRecord {
    /// Worker that the process ran.
    pub(super) worker: Worker,
    pub(super) process: ProcessNumber,
    pub(super) recoveries: u32,
    /// State of the job that a replacement needs.
    pub(super) job_state: Vec<u8>,
    pub(super) own: Replica,
    pub(super) stored: Vec<Replica>,
}

/// Persistent replica store of this process.
pub struct PersistentStore {
    pub(super) files: ArenaFiles,
    pub(super) records: ReplicaRecords,
    /// Slots to which the committed record refers.
    pub(super) committed: Vec<Extent>,
    /// Slots to which the record of the later epoch refers.
    pub(super) whole: Vec<Extent>,
    /// Worker whose replicas these are, as reported to the node manager.
    pub(super) reported_worker: Option<Worker>,
    /// Replicas of a later epoch, which were complete in the dead process with this store.
    ///
    /// Pages that differ between this epoch and the committed epoch are in different slots.
    pub(super) inherited: Option<(Replica, Vec<Replica>)>,
}

/// Persistent replica store of another process, read but not used yet.
pub struct ForeignStore {
    pub(super) files: ArenaFiles,
    pub(super) records: ReplicaRecords,
    pub(super) committed: Option<ReplicaRecord>,
    pub(super) whole: Option<ReplicaRecord>,
}

impl ForeignStore {
    /// Returns the record of the latest epoch.
    pub fn last(&self) -> Option<&ReplicaRecord> {
        self.whole.as_ref().or(self.committed.as_ref())
    }
}

impl ReplicaRecord {
    /// Returns the replicas.
    pub fn kept(&self) -> ReplicaSet<'_> {
        ReplicaSet {
            own: &self.own,
            stored: &self.stored,
        }
    }
}

impl ReplicaSet<'_> {
    /// True if pages are missing that only a replay or a file restores.
    ///
    /// A replacement could not use such replicas, because a replay or a file needs more than the
    /// recorded data. `reversible` pages may be missing: they are missing in the own replica only,
    /// and the buddy stores them.
    fn is_reduced(self, reversible: &[PageRun]) -> bool {
        let is_reduced =
            |copy: &Replica| copy.replay_plan.is_some() || !copy.image.absent().is_empty();
        let is_own_reduced = self.own.replay_plan.is_some()
            || !absent_pages::without(self.own.image.absent(), reversible).is_empty();
        is_own_reduced || self.stored.iter().any(is_reduced)
    }

    /// Returns the slots of all pages; slots that several replicas share occur more than once.
    pub fn extents(self) -> Vec<Extent> {
        let copies = std::iter::once(self.own).chain(self.stored);
        let runs = copies.flat_map(|copy| copy.image.runs());
        runs.map(|run| SlotRun::extent(*run)).collect()
    }
}

/// True if the store of pages can outlive this process.
pub fn can_store_persist() -> bool {
    is_permitted() && ArenaFiles::new().is_ok()
}

fn is_permitted() -> bool {
    system_calls::is_file_size_unlimited() && !fault::is_missing(MissingFeature::Memfd)
}

/// Creates the store of pages, which outlives this process if files in memory are available.
pub fn new_store() -> Result<(PageStore, Option<PersistentStore>), StoreError> {
    if is_permitted() {
        match ArenaFiles::new() {
            Ok(files) => {
                let store = PageStore::in_files(STORE_CONFIG, files.clone(), &[])?;
                return Ok((store, Some(PersistentStore::new(files)?)));
            }
            Err(error) => log::info!("replicas end with their process: {error}"),
        }
    }
    Ok((PageStore::new(STORE_CONFIG)?, None))
}

impl PersistentStore {
    /// Creates empty records.
    fn new(files: ArenaFiles) -> Result<PersistentStore, StoreError> {
        Ok(PersistentStore {
            records: ReplicaRecords::new(&files)?,
            files,
            committed: Vec::new(),
            whole: Vec::new(),
            reported_worker: None,
            inherited: None,
        })
    }

    /// Returns the files with the replicas.
    pub fn files(&self) -> ArenaFiles {
        self.files.clone()
    }

    /// Records that all replicas of the next epoch are complete in this process.
    ///
    /// Must be called before this process reports complete replicas to any other process.
    pub fn record_complete(
        &mut self,
        rt: &Runtime,
        kept: ReplicaSet,
        context: RecordContext,
        store: &mut PageStore,
    ) {
        if kept.is_reduced(&context.reversible) {
            return self.drop_files(store);
        }
        self.whole = kept.extents();
        store.protect([&self.committed[..], &self.whole].concat());
        if !self.write_record(rt, kept, context.job_state, RecordState::Complete) {
            self.drop_files(store);
        }
    }

    /// Commits the next epoch. Until this call the previous epoch must not change.
    pub fn commit(&mut self, store: &mut PageStore) {
        self.records.commit();
        self.committed = std::mem::take(&mut self.whole);
        store.protect(self.committed.clone());
    }

    /// Discards the next epoch.
    pub fn discard_next(&mut self, store: &mut PageStore) {
        self.records.discard_complete();
        self.whole.clear();
        store.protect(self.committed.clone());
    }

    /// Records the replicas of the epoch to which a recovery has returned.
    pub fn record_committed(
        &mut self,
        rt: &Runtime,
        kept: ReplicaSet,
        context: RecordContext,
        store: &mut PageStore,
    ) {
        if kept.is_reduced(&context.reversible) {
            return self.drop_files(store);
        }
        let extents = kept.extents();
        store.protect([&self.committed[..], &extents].concat());
        if !self.write_record(rt, kept, context.job_state, RecordState::Committed) {
            return self.drop_files(store);
        }
        self.committed = extents;
        store.protect(self.committed.clone());
    }

    /// Invalidates the records.
    pub fn invalidate(&mut self, store: &mut PageStore) {
        self.records.clear();
        self.committed.clear();
        self.whole.clear();
        store.protect([]);
    }

    /// Invalidates the records and makes the node manager drop the files.
    fn drop_files(&mut self, store: &mut PageStore) {
        self.invalidate(store);
        if self.reported_worker.take().is_some() {
            reinit::report_no_store();
        }
    }

    /// Writes a record; returns false if the record does not fit.
    ///
    /// Passes the files to the node manager, unless the node manager has them already.
    fn write_record(
        &mut self,
        rt: &Runtime,
        kept: ReplicaSet,
        job_state: Vec<u8>,
        state: RecordState,
    ) -> bool {
        let world = world::get(rt);
        let written = WrittenRecord {
            worker: world::worker(rt),
            process: world.process,
            recoveries: world.recoveries,
            job_state,
            own: kept.own,
            stored: kept.stored,
        };
        let bytes = bincode::encode_to_vec(written, standard())
            .expect("encoding into memory does not fail");
        if let Err(error) = self.records.write(&bytes, state) {
            log::warn!("{}", message::replicas_end_with_process(error));
            return false;
        }
        if self.reported_worker != Some(world::worker(rt)) {
            self.reported_worker = Some(world::worker(rt));
            reinit::hand_over(world::worker(rt), [&self.files.pages, &self.files.index]);
        }
        true
    }
}
