//! The persistent replica store: replicas that outlive their process.
//!
//! Pages and checksums are in files in memory ([`Files`]), of which the process manager has
//! descriptors, too. All other data that the use of the replicas requires are recorded there
//! ([`Records`]): before this process reports to the others that its replicas of an epoch are
//! complete, and again when the epoch is committed. Slots to which a record refers are not reused
//! ([`PageStore::protect`]). So the last committed epoch is available whenever this process dies,
//! and the next one as soon as other processes may commit it.
//!
//! The process that receives the files adopts them ([`super::adoption`]) without a copy.

use super::copy::Copy;
use super::records::{Records, Standing};
use crate::fault::Lack;
use crate::renewal;
use crate::{fault, sys, world};
use bincode::config::standard;
use understudy_catalogue::message;
use understudy_image::absent;
use understudy_image::epoch::SlotRun;
use understudy_image::runs::PageRun;
use understudy_image::store::{Extent, Files, PageStore, StoreConfig, StoreError};
use understudy_job::Runtime;
use understudy_numbers::{ProcessNumber, Worker};

/// Configuration that reserves addresses for 1 TiB; only used pages take memory.
pub const STORE: StoreConfig = StoreConfig {
    base: None,
    capacity_pages: 1 << 28,
    dont_fork: true,
};

/// Replicas of one epoch in this process.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    pub own: &'a Copy,
    /// Replicas of other workers, by layer.
    pub partners: &'a [Copy],
}

/// Facts that are recorded beside the replicas.
pub struct Context {
    /// State of the job that a replacement needs.
    pub welcome: Vec<u8>,
    /// Pages whose changes functions of the program undo (sorted).
    pub reversible: Vec<PageRun>,
}

/// Record of replicas, for writing.
#[derive(bincode::Encode)]
struct Written<'a> {
    worker: Worker,
    player: ProcessNumber,
    recoveries: u32,
    welcome: Vec<u8>,
    own: &'a Copy,
    partners: &'a [Copy],
}

/// Record of replicas, for reading; its fields have the order of [`Written`].
#[derive(bincode::Decode)]
pub struct Record {
    /// Worker that the process ran.
    pub(super) worker: Worker,
    pub(super) player: ProcessNumber,
    pub(super) recoveries: u32,
    /// State of the job that a replacement needs.
    pub(super) welcome: Vec<u8>,
    pub(super) own: Copy,
    pub(super) partners: Vec<Copy>,
}

/// Persistent replica store of this process.
pub struct Legacy {
    pub(super) files: Files,
    pub(super) records: Records,
    /// Slots to which the committed record refers.
    pub(super) committed: Vec<Extent>,
    /// Slots to which the record of the later epoch refers.
    pub(super) whole: Vec<Extent>,
    /// Worker whose replicas these are, according to the process manager.
    pub(super) told: Option<Worker>,
    /// Replicas of a later epoch that were complete in the predecessor.
    ///
    /// Pages that differ are in other slots.
    pub(super) inherited: Option<(Copy, Vec<Copy>)>,
}

/// Persistent replica store of another process, read but not used yet.
pub struct Estate {
    pub(super) files: Files,
    pub(super) records: Records,
    pub(super) committed: Option<Record>,
    pub(super) whole: Option<Record>,
}

impl Estate {
    /// Returns the record of the latest epoch.
    pub fn last(&self) -> Option<&Record> {
        self.whole.as_ref().or(self.committed.as_ref())
    }
}

impl Record {
    /// Returns the replicas.
    pub fn kept(&self) -> Kept<'_> {
        Kept {
            own: &self.own,
            partners: &self.partners,
        }
    }
}

impl Kept<'_> {
    /// True if pages are missing that only a replay restores.
    ///
    /// A replay needs more than the recorded data. `reversible` pages are missing in the own
    /// replica only, and its buddy has them.
    fn is_thin(self, reversible: &[PageRun]) -> bool {
        let is_thin = |copy: &Copy| copy.script.is_some() || !copy.image.absent().is_empty();
        let is_own_thin = self.own.script.is_some()
            || !absent::without(self.own.image.absent(), reversible).is_empty();
        is_own_thin || self.partners.iter().any(is_thin)
    }

    /// Returns the slots of all pages; slots that several replicas share occur more than once.
    pub fn extents(self) -> Vec<Extent> {
        let copies = std::iter::once(self.own).chain(self.partners);
        let runs = copies.flat_map(|copy| copy.image.runs());
        runs.map(|run| SlotRun::extent(*run)).collect()
    }
}

/// Creates the store of pages, which outlives this process if files in memory are available.
pub fn new_store() -> Result<(PageStore, Option<Legacy>), StoreError> {
    if sys::files_may_grow() && !fault::pretends(Lack::Memfd) {
        match Files::new() {
            Ok(files) => {
                let store = PageStore::in_files(STORE, files.clone(), &[])?;
                return Ok((store, Some(Legacy::new(files)?)));
            }
            Err(error) => log::info!("replicas end with their process: {error}"),
        }
    }
    Ok((PageStore::new(STORE)?, None))
}

impl Legacy {
    /// Creates empty records.
    fn new(files: Files) -> Result<Legacy, StoreError> {
        Ok(Legacy {
            records: Records::new(&files)?,
            files,
            committed: Vec::new(),
            whole: Vec::new(),
            told: None,
            inherited: None,
        })
    }

    /// Returns the files with the replicas.
    pub fn files(&self) -> Files {
        self.files.clone()
    }

    /// Records that all replicas of the next epoch are complete in this process.
    ///
    /// To be called before this is reported to any other process.
    pub fn note_whole(
        &mut self,
        rt: &Runtime,
        kept: Kept,
        context: Context,
        store: &mut PageStore,
    ) {
        if kept.is_thin(&context.reversible) {
            return self.leave(store);
        }
        self.whole = kept.extents();
        store.protect([&self.committed[..], &self.whole].concat());
        if !self.write(rt, kept, context.welcome, Standing::Whole) {
            self.leave(store);
        }
    }

    /// Commits that epoch. Until then the previous epoch must not change.
    pub fn commit(&mut self, store: &mut PageStore) {
        self.records.commit();
        self.committed = std::mem::take(&mut self.whole);
        store.protect(self.committed.clone());
    }

    /// Discards that epoch.
    pub fn withdraw(&mut self, store: &mut PageStore) {
        self.records.withdraw();
        self.whole.clear();
        store.protect(self.committed.clone());
    }

    /// Records the replicas of the epoch to which a recovery has returned.
    pub fn renew(&mut self, rt: &Runtime, kept: Kept, context: Context, store: &mut PageStore) {
        if kept.is_thin(&context.reversible) {
            return self.leave(store);
        }
        let extents = kept.extents();
        store.protect([&self.committed[..], &extents].concat());
        if !self.write(rt, kept, context.welcome, Standing::Committed) {
            return self.leave(store);
        }
        self.committed = extents;
        store.protect(self.committed.clone());
    }

    /// Invalidates the records.
    pub fn forget(&mut self, store: &mut PageStore) {
        self.records.forget();
        self.committed.clear();
        self.whole.clear();
        store.protect([]);
    }

    /// Invalidates the records and makes the process manager drop the files.
    fn leave(&mut self, store: &mut PageStore) {
        self.forget(store);
        if self.told.take().is_some() {
            renewal::keep_nothing();
        }
    }

    /// Writes a record and passes the files to the process manager.
    ///
    /// Returns false if the record does not fit.
    fn write(&mut self, rt: &Runtime, kept: Kept, welcome: Vec<u8>, standing: Standing) -> bool {
        let world = world::get(rt);
        let written = Written {
            worker: world::worker(rt),
            player: world.process,
            recoveries: world.recoveries,
            welcome,
            own: kept.own,
            partners: kept.partners,
        };
        let bytes = bincode::encode_to_vec(written, standard())
            .expect("encoding into memory does not fail");
        if let Err(error) = self.records.write(&bytes, standing) {
            log::warn!("{}", message::replicas_end_with_process(error));
            return false;
        }
        if self.told != Some(world::worker(rt)) {
            self.told = Some(world::worker(rt));
            renewal::hand_over(world::worker(rt), [&self.files.pages, &self.files.index]);
        }
        true
    }
}
