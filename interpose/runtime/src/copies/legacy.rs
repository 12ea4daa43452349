//! Copies that outlive their process: what it leaves to the one that takes its part.
//!
//! Pages and checksums are in files in memory ([`Files`]), of which the process manager has descriptors, too. Everything else that is
//! needed to use the copies again is recorded there ([`Records`]): before this process tells the others that all copies of an epoch are
//! whole here, and again when it is committed. Slots that a record leads to are not used for anything else
//! ([`PageStore::protect`]), so the last committed epoch can be had whenever this process dies, and the next one as soon as the
//! others may commit it.
//!
//! The process that gets the files, the *heir*, takes them for its own: nothing is copied.

use super::copy::Copy;
use super::records::{Found, Records, Standing};
use super::{Keep, STORE};
use crate::copies::Runtime;
use crate::fault::Lack;
use crate::renewal::Inheritance;
use crate::{fault, marks, peers, renewal, sys, world};
use bincode::config::standard;
use std::fs::File;
use std::io;
use std::sync::Arc;
use understudy_image::absent;
use understudy_image::epoch::SlotRun;
use understudy_image::runs::{self, PageRun};
use understudy_image::store::{Extent, Files, PageStore, Slot, StoreError};
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Copies of one epoch in this process.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    pub own: &'a Copy,
    /// Replicas by layer.
    pub partners: &'a [Copy],
}

/// What is recorded of them.
#[derive(bincode::Encode)]
struct Written<'a> {
    worker: Worker,
    player: ProcessNumber,
    recoveries: u32,
    welcome: Vec<u8>,
    own: &'a Copy,
    partners: &'a [Copy],
}

/// The same, read, in the same order.
#[derive(bincode::Decode)]
struct Record {
    /// The worker that the process played.
    worker: Worker,
    player: ProcessNumber,
    recoveries: u32,
    /// What a newcomer has to know of the job.
    welcome: Vec<u8>,
    own: Copy,
    partners: Vec<Copy>,
}

/// What this process leaves.
pub struct Legacy {
    files: Files,
    records: Records,
    /// Slots that the committed record leads to, and those of the later one.
    committed: Vec<Extent>,
    whole: Vec<Extent>,
    /// The worker whose copies the process manager takes this for.
    told: Option<Worker>,
    /// Copies of a later epoch that the process before had whole, in slots of their own where they differ.
    inherited: Option<(Copy, Vec<Copy>)>,
}

/// What an heir has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub worker: Worker,
    /// The process that played it last.
    pub player: ProcessNumber,
    /// Its last committed epoch.
    pub committed: Epoch,
    /// A later one whose copies are whole.
    pub whole: Option<Epoch>,
    /// Whether nothing is missing in its own copy.
    pub has_own: bool,
}

/// Somebody else's files, read but not used yet.
pub(super) struct Estate {
    files: Files,
    records: Records,
    committed: Option<Record>,
    whole: Option<Record>,
}

impl Record {
    fn last(found: &Estate) -> Option<&Record> {
        found.whole.as_ref().or(found.committed.as_ref())
    }

    fn kept(&self) -> Kept<'_> {
        Kept {
            own: &self.own,
            partners: &self.partners,
        }
    }
}

impl Kept<'_> {
    /// Whether something is missing that only a replay brings back, which takes more than what is recorded. What functions undo the changes
    /// of is missing in the own copy alone, and its holder has it.
    fn is_thin(self, rt: &Runtime) -> bool {
        let is_thin = |copy: &Copy| copy.script.is_some() || !copy.image.absent().is_empty();
        let undoable = marks::lasting(rt).reversible_pages();
        let is_own_thin = self.own.script.is_some()
            || !absent::without(self.own.image.absent(), &undoable).is_empty();
        is_own_thin || self.partners.iter().any(is_thin)
    }

    /// The slots of all pages; those of pages that own and partners' copies share come more than once.
    fn extents(self) -> Vec<Extent> {
        let copies = std::iter::once(self.own).chain(self.partners);
        let runs = copies.flat_map(|copy| copy.image.runs());
        runs.map(|run| SlotRun::extent(*run)).collect()
    }
}

/// Sorted and apart, as runs, which have the same arithmetic.
fn slots(extents: &[Extent]) -> Vec<PageRun> {
    let run = |extent: &Extent| PageRun::between(extent.first.0, extent.first.0 + extent.len);
    runs::normalise(extents.iter().map(run).collect())
}

fn extents(slots: &[PageRun]) -> Vec<Extent> {
    let extent = |run: &PageRun| Extent {
        first: Slot(run.start.0),
        len: run.pages,
    };
    slots.iter().map(extent).collect()
}

/// Gives back the slots of the first that the second has not.
fn release_others(of: Kept, others: Kept, store: &mut PageStore) {
    let only = runs::subtract(&slots(&of.extents()), &slots(&others.extents()));
    store.release(extents(&only));
}

/// Tells the store which slots several of the copies that are kept refer to.
fn count_shares(keep: &mut Keep) {
    let kept = Kept {
        own: &keep.own,
        partners: &keep.partners,
    };
    keep.store.count_shares(kept.extents());
}

/// Room for pages, which outlives this process if somebody is there to keep it.
pub fn new_store() -> Result<(PageStore, Option<Legacy>), StoreError> {
    if sys::files_may_grow() && !fault::pretends(Lack::Memfd) {
        match Files::new() {
            Ok(files) => {
                let store = PageStore::in_files(STORE, files.clone(), &[])?;
                return Ok((store, Some(Legacy::new(files)?)));
            }
            Err(error) => log::info!("copies do not outlive their process: {error}"),
        }
    }
    Ok((PageStore::new(STORE)?, None))
}

impl Legacy {
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

    /// The files that the copies are in.
    pub fn files(&self) -> Files {
        self.files.clone()
    }

    /// All copies of the next epoch are whole in this process. To be called before any other hears of that.
    pub fn note_whole(
        &mut self,
        rt: &Runtime,
        kept: Kept,
        welcome: Vec<u8>,
        store: &mut PageStore,
    ) {
        if kept.is_thin(rt) {
            return self.leave(store);
        }
        self.whole = kept.extents();
        store.protect([&self.committed[..], &self.whole].concat());
        if !self.write(rt, kept, welcome, Standing::Whole) {
            self.leave(store);
        }
    }

    /// That epoch is committed. Until this has been said, nothing of the one before may change.
    pub fn commit(&mut self, store: &mut PageStore) {
        self.records.commit();
        self.committed = std::mem::take(&mut self.whole);
        store.protect(self.committed.clone());
    }

    /// That epoch is given up.
    pub fn withdraw(&mut self, store: &mut PageStore) {
        self.records.withdraw();
        self.whole.clear();
        store.protect(self.committed.clone());
    }

    /// After a recovery: these are the copies of the epoch that all have gone back to.
    pub fn renew(&mut self, rt: &Runtime, kept: Kept, welcome: Vec<u8>, store: &mut PageStore) {
        if kept.is_thin(rt) {
            return self.leave(store);
        }
        let extents = kept.extents();
        store.protect([&self.committed[..], &extents].concat());
        if !self.write(rt, kept, welcome, Standing::Committed) {
            return self.leave(store);
        }
        self.committed = extents;
        store.protect(self.committed.clone());
    }

    /// What is recorded is not to be used any more.
    pub fn forget(&mut self, store: &mut PageStore) {
        self.records.forget();
        self.committed.clear();
        self.whole.clear();
        store.protect([]);
    }

    /// Nothing is left from here on.
    fn leave(&mut self, store: &mut PageStore) {
        self.forget(store);
        if self.told.take().is_some() {
            renewal::keep_nothing();
        }
    }

    /// Whether there is room for it.
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
            log::warn!("copies do not outlive this process: {error}");
            return false;
        }
        if self.told != Some(world::worker(rt)) {
            self.told = Some(world::worker(rt));
            renewal::hand_over(world::worker(rt), [&self.files.pages, &self.files.index]);
        }
        true
    }

    /// What the process before had whole is the epoch that all go back to, or is given up.
    pub fn resolve(keep: &mut Keep, agreed: Epoch) {
        let Some(legacy) = &mut keep.legacy else {
            return;
        };
        let Some((own, partners)) = legacy.inherited.take() else {
            return;
        };
        let later = Kept {
            own: &own,
            partners: &partners,
        };
        let before = Kept {
            own: &keep.own,
            partners: &keep.partners,
        };
        // What only one of the two epochs has is released once below, however many of its copies have it.
        keep.store.count_shares([]);
        if own.image.epoch() == agreed {
            legacy.commit(&mut keep.store);
            release_others(before, later, &mut keep.store);
            (keep.own, keep.partners) = (own, partners);
        } else {
            legacy.withdraw(&mut keep.store);
            release_others(later, before, &mut keep.store);
        }
        count_shares(keep);
    }
}

/// Takes up what the process manager has given to this process, if there is something new. After how many recoveries of the job its predecessor
/// has recorded that; `None` without one.
pub fn look(rt: &Runtime) -> Option<u32> {
    if let Some(inheritance) = renewal::take_inheritance(rt) {
        peers::note_end(inheritance.from, inheritance.status);
        match read(inheritance) {
            Ok(found) if Record::last(&found).is_some() => rt.found.set(Some(found)),
            other => {
                let why = other
                    .err()
                    .map_or("nothing is recorded".into(), |error| error.to_string());
                log::warn!("what a dead process has left cannot be used: {why}");
                renewal::keep_nothing();
            }
        }
    }
    let found = rt.found.borrow();
    let last = found.as_ref().and_then(Record::last);
    last.map(|record| record.recoveries)
}

/// What it has recorded for newcomers.
pub fn welcome_of_predecessor(rt: &Runtime) -> Option<Vec<u8>> {
    let found = rt.found.borrow();
    Some(Record::last(found.as_ref()?)?.welcome.clone())
}

fn read(inheritance: Inheritance) -> io::Result<Estate> {
    let [pages, index] = inheritance.files.map(|file| Arc::new(File::from(file)));
    let files = Files { pages, index };
    let (records, Found { committed, whole }) = Records::open(&files)?;
    let decode = |bytes: Option<Vec<u8>>| -> io::Result<Option<Record>> {
        let decoded = bytes.map(|bytes| bincode::decode_from_slice(&bytes, standard()));
        let record = decoded.transpose().map_err(io::Error::other)?;
        Ok(record.map(|(record, _)| record))
    };
    Ok(Estate {
        committed: decode(committed)?,
        whole: decode(whole)?,
        files,
        records,
    })
}

/// Puts what has been found in place of all that this process keeps; `None` if there is nothing, or nothing of use.
pub fn adopt(rt: &Runtime, keep: &mut Keep) -> Option<Inherited> {
    look(rt);
    let got = take_over(rt.found.take()?, keep);
    if got.is_none() {
        renewal::keep_nothing();
    }
    got
}

fn take_over(estate: Estate, keep: &mut Keep) -> Option<Inherited> {
    let last = Record::last(&estate)?;
    let (worker, player) = (last.worker, last.player);
    let Estate {
        files,
        records,
        committed,
        whole,
    } = estate;
    let of = |record: &Option<Record>| {
        record
            .as_ref()
            .map_or(Vec::new(), |record| record.kept().extents())
    };
    let (first, second) = (of(&committed), of(&whole));
    let used = extents(&slots(&[&first[..], &second].concat()));
    let store = PageStore::in_files(STORE, files.clone(), &used);
    let unusable = |error: &StoreError| {
        log::warn!(
            "what a dead process has left cannot be used: {}",
            sys::chain(error)
        )
    };
    let mut store = store.inspect_err(unusable).ok()?;
    store.protect(used);
    let kept = keep.partners.len();
    let none = || {
        (
            Copy::default(),
            (0..kept).map(|_| Copy::default()).collect(),
        )
    };
    let parts = |record: Option<Record>| record.map(|record| (record.own, record.partners));
    (keep.own, keep.partners) = parts(committed).unwrap_or_else(none);
    let inherited = parts(whole);
    let later = inherited.as_ref().map(|(own, _)| own);
    let got = Inherited {
        worker,
        player,
        committed: keep.own.image.epoch(),
        whole: later.map(|own| own.image.epoch()),
        has_own: [Some(&keep.own), later]
            .into_iter()
            .flatten()
            .all(|own| own.image.absent().is_empty()),
    };
    keep.store = store;
    count_shares(keep);
    keep.legacy = Some(Legacy {
        files,
        records,
        committed: first,
        whole: second,
        told: Some(worker),
        inherited,
    });
    Some(got)
}
