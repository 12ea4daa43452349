//! Adoption of the replicas that a dead process has left ([`super::legacy`]).

use super::copy::Copy;
use super::legacy::{Estate, Kept, Legacy, Record, STORE};
use super::own_replica::keep;
use super::records::{Found, Records};
use super::replicas::Replicas;
use crate::Runtime;
use crate::renewal::Inheritance;
use crate::{peers, renewal, sys};
use bincode::config::standard;
use std::fs::File;
use std::io;
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_image::runs::{self, PageRun};
use understudy_image::store::{Extent, Files, PageStore, Slot, StoreError};
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Contents of the persistent replica store that this process has adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub worker: Worker,
    /// Process that ran this worker last.
    pub player: ProcessNumber,
    /// Last committed epoch.
    pub committed: Epoch,
    /// Later epoch whose replicas are complete.
    pub whole: Option<Epoch>,
    /// True if the own replica is complete.
    pub has_own: bool,
}

/// Converts slots to sorted, disjoint runs of pages, which have the same arithmetic.
fn slots(extents: &[Extent]) -> Vec<PageRun> {
    let run = |extent: &Extent| PageRun::between(extent.first.0, extent.first.0 + extent.len);
    runs::normalise(extents.iter().map(run).collect())
}

/// Converts runs of pages back to slots.
fn extents(slots: &[PageRun]) -> Vec<Extent> {
    let extent = |run: &PageRun| Extent {
        first: Slot(run.start.0),
        len: run.pages,
    };
    slots.iter().map(extent).collect()
}

/// Releases the slots of `of` that `others` does not contain.
fn release_others(of: Kept, others: Kept, store: &mut PageStore) {
    let only = runs::subtract(&slots(&of.extents()), &slots(&others.extents()));
    store.release(extents(&only));
}

/// Counts the references to slots that several of the kept replicas share.
fn count_shares(keep: &mut Replicas) {
    let kept = Kept {
        own: &keep.own,
        partners: &keep.partners,
    };
    keep.store.count_shares(kept.extents());
}

/// Commits the predecessor's later epoch if all workers return to it, or discards it.
pub fn resolve(keep: &mut Replicas, agreed: Epoch) {
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
    // Slots of only one of the two epochs are released once below, even if several replicas
    // refer to them.
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

/// Reads the replica store that the process manager has passed, if it is new.
///
/// Returns the number of the job's recoveries at the time of the predecessor's record; `None`
/// without a predecessor.
pub fn look(rt: &Runtime) -> Option<u32> {
    if let Some(inheritance) = renewal::take_inheritance(rt) {
        peers::note_end(inheritance.from, inheritance.status);
        match read(inheritance) {
            Ok(found) if found.last().is_some() => rt.copies.found.set(Some(found)),
            other => {
                let why = other
                    .err()
                    .map_or("nothing is recorded".into(), |error| error.to_string());
                log::warn!("{}", message::stored_replicas_unusable(why));
                renewal::keep_nothing();
            }
        }
    }
    let found = rt.copies.found.borrow();
    let last = found.as_ref().and_then(Estate::last);
    last.map(|record| record.recoveries)
}

/// Returns the state of the job that the predecessor has recorded for its replacement.
pub fn welcome_of_predecessor(rt: &Runtime) -> Option<Vec<u8>> {
    let found = rt.copies.found.borrow();
    Some(found.as_ref()?.last()?.welcome.clone())
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

/// Replaces all replicas in this process by those of a dead process.
///
/// Returns `None` if there are no usable ones.
pub fn adopt(rt: &Runtime) -> Option<Inherited> {
    let keep = &mut keep(rt);
    look(rt);
    let got = take_over(rt.copies.found.take()?, keep);
    if got.is_none() {
        renewal::keep_nothing();
    }
    got
}

fn take_over(estate: Estate, keep: &mut Replicas) -> Option<Inherited> {
    let last = estate.last()?;
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
    let unusable =
        |error: &StoreError| log::warn!("{}", message::stored_replicas_unusable(sys::chain(error)));
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
