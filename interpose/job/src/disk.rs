//! The disk level: epochs in files, from which a whole job can be started again
//! (`UNDERSTUDY_DISK`).
//!
//! ```text
//!   cut       all workers tell whether they can write, and what they have written last   → report, agreed
//!   commit    if all could, each writes its file beside the program                      → committed, writer
//!   restart, or the loss of a rank and of all copies of it:
//!             the newest epoch of which all workers have whole files                     → choose, load
//! ```
//!
//! - `understudy_formats::epochs` has the names of the files and their content;
//! - `identity`: what a file must have in common with the process that loads it;
//! - `writer`: the thread that writes; `load`: from a file to an image; `choose`: the epoch that
//!   everybody has;
//! - `places`: the directory, and this job's files there.
//!
//! Each worker writes, finds and removes its own files only, and what all have is found out by
//! communication. So the directory may also lie on a local disk of each node, as long as ranks come
//! back to their nodes.
#![allow(unsafe_code)]

mod choose;
mod disk_level;
mod identity;
mod load;
mod places;
mod static_file;
mod writer;

use crate::gather::everybodys;
use crate::{Runtime, told, user};
use catalogue::Name;
use disk_level::DiskLevel;
pub(crate) use disk_level::DiskState;
pub use disk_level::Report;
use format::{Head, Identity};
pub use load::Loaded;
pub use places::explain;
pub use static_file::{StaticFile, Writing};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use understudy_catalogue::message;
pub use understudy_formats::epochs::catalogue::Key;
use understudy_formats::epochs::{catalogue, format};
use understudy_formats::events::realtime_ns;
use understudy_image::absent::Sums;
use understudy_image::epoch::{Image, SlotRun};
use understudy_image::store::PageStore;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, Rank, Worker};
use writer::{Job, Pages, Piece, Writer};
use xxhash_rust::xxh3::xxh3_64;

fn checksum(key: Key) -> u64 {
    let parts = [key.lineage, key.generation, key.epoch.0];
    xxh3_64(&parts.map(u64::to_le_bytes).concat()).max(1)
}

/// Whether there is a disk level.
pub fn is_on(rt: &Runtime) -> bool {
    rt.disk.level.borrow().is_some()
}

/// Returns what files of this worker have in common.
fn identity(rt: &Runtime, workers: u32) -> Identity {
    identity::own(user::layout(rt), workers)
}

/// Opens the directory, if there is to be one: a collective over all processes. Whether the job
/// goes on from an epoch there, which is loaded; or why it must not start.
pub fn open(
    rt: &Runtime,
    comm: RealComm,
    worker: Worker,
    workers: u32,
    store: &mut PageStore,
) -> mpi::Result<Result<bool, String>> {
    let config = told::config();
    let Some(directory) = &config.disk else {
        return Ok(Ok(false));
    };
    let mut lineage = [realtime_ns()];
    comm.broadcast(Rank(0), &mut lineage)?;
    let [lineage] = lineage;
    let mut level = rt.disk.level.borrow_mut();
    let disk = level.insert(DiskLevel::new(directory, lineage, identity(rt, workers)));
    let place = disk.places.directory.display().to_string();
    if let Some(why) = first_of(comm, disk.places.claim().err())? {
        return Ok(Err(format!("{place}: {why}")));
    }
    disk.places.remove_torn(worker);
    disk.places.remove_static(worker);
    if !config.restart {
        if let Some(key) = choose::newest(disk, comm, worker)? {
            return Ok(Err(message::earlier_epochs(place, key.epoch).to_string()));
        }
        user::keep_files_on_disk(rt, &disk.places.directory, lineage, disk.start);
        return Ok(Ok(false));
    }
    drop(level);
    Ok(match choose(rt, comm, worker, store)? {
        Some(_) => {
            if let Some(disk) = &*rt.disk.level.borrow() {
                user::keep_files_on_disk(rt, &disk.places.directory, disk.lineage, disk.start);
            }
            Ok(true)
        }
        None => Err(message::no_epoch(place, workers).to_string()),
    })
}

/// Returns the first of the processes' reasons. A collective.
fn first_of(comm: RealComm, own: Option<String>) -> mpi::Result<Option<String>> {
    Ok(everybodys(comm, &own)?.into_iter().flatten().next())
}

/// What a process has to know of the disk level that joins the job later.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
pub struct Told {
    lineage: u64,
    start: u64,
    base: u64,
}

pub fn told(rt: &Runtime) -> Option<Told> {
    let told = |disk: &DiskLevel| Told {
        lineage: disk.lineage,
        start: disk.start,
        base: disk.base,
    };
    rt.disk.level.borrow().as_ref().map(told)
}

/// This process has joined the job, which has a disk level.
pub fn join(rt: &Runtime, told: Told, workers: u32) {
    let Some(directory) = &told::config().disk else {
        return;
    };
    let mut level = rt.disk.level.borrow_mut();
    let disk = level.insert(DiskLevel::new(
        directory,
        told.lineage,
        identity(rt, workers),
    ));
    (disk.start, disk.base) = (told.start, told.base);
    if let Err(why) = disk.places.claim() {
        log::warn!("{}: {why}", disk.places.directory.display());
    }
    user::keep_files_on_disk(rt, &disk.places.directory, told.lineage, told.start);
}

/// Finds the newest epoch of which all workers have whole files, and loads that of the worker that
/// this process plays or will play: a collective over all.
pub fn choose(
    rt: &Runtime,
    comm: RealComm,
    worker: Worker,
    store: &mut PageStore,
) -> mpi::Result<Option<Key>> {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return Ok(None);
    };
    disk.finish(store);
    disk.forget_loaded(store);
    let Some(found) = choose::choose(disk, comm, worker, store)? else {
        return Ok(None);
    };
    disk.lineage = found.key.lineage;
    if told::config().restart && disk.base == 0 {
        disk.base = found.newest.generation + 1;
    }
    disk.chosen = Some((found.key, Some(found.loaded)));
    Ok(Some(found.key))
}

/// The store is about to be replaced: what was loaded into it and not taken is of no use any more.
pub fn forget_loaded(rt: &Runtime, store: &mut PageStore) {
    if let Some(disk) = &mut *rt.disk.level.borrow_mut() {
        disk.forget_loaded(store);
    }
}

pub fn take_chosen(rt: &Runtime) -> Option<Loaded> {
    let mut level = rt.disk.level.borrow_mut();
    let disk = level.as_mut()?;
    let loaded = disk.chosen.as_mut()?.1.take();
    if let Some(loaded) = &loaded
        && loaded.head.environment != disk.environment
        && loaded.head.worker == Worker(0)
    {
        log::warn!("{}", message::OTHER_ENVIRONMENT);
    }
    loaded
}

/// All have gone back to this epoch. If it is the chosen one, by this attempt or one before, there
/// is nothing newer any more.
pub fn go_on_from(rt: &Runtime, worker: Worker, epoch: Epoch) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let is_it = |(key, loaded): &mut (Key, Option<Loaded>)| key.epoch == epoch && loaded.is_none();
    let Some((key, _)) = disk.chosen.take_if(is_it) else {
        return;
    };
    (disk.written, disk.due, disk.complete) = (Some(key), None, BTreeSet::from([key]));
    disk.own.retain(|other| *other <= key);
    disk.own.insert(key);
    let newer: Vec<Key> = disk
        .places
        .keys(worker)
        .into_iter()
        .filter(|other| *other > key)
        .collect();
    disk.places.remove(worker, &newer);
    disk.places.remove_torn(worker);
}

/// The epoch of the cut under way is to be written, with this key.
pub fn due(rt: &Runtime) -> Option<Key> {
    rt.disk.level.borrow().as_ref()?.due
}

/// This process has taken a part at an epoch that was to be written with this key, if it was. If
/// its predecessor has died before that, it is written now: else nobody could go on from this
/// epoch, which may be the first.
pub fn take_over(
    rt: &Runtime,
    worker: Worker,
    key: Option<Key>,
    store: &mut PageStore,
    image: &Image,
    state: &[u8],
) {
    let mut level = rt.disk.level.borrow_mut();
    let Some(disk) = &mut *level else { return };
    let files = disk.places.keys(worker).into_iter();
    disk.own = files.filter(|key| key.lineage == disk.lineage).collect();
    disk.places.remove_torn(worker);
    disk.due = key.filter(|key| !disk.own.contains(key) && image.absent().is_empty());
    drop(level);
    committed(rt, store, image, state, worker);
}

/// This worker is at its end: it writes nothing any more, so that after the workers' last agreement
/// no file appears.
pub fn stop_writing(rt: &Runtime, store: &mut PageStore) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    if let Some(outcome) = disk.writer.as_mut().and_then(Writer::stop) {
        disk.note(outcome, store);
    }
}

/// The job has come to its end: there is nothing to go back for. All others are at the end, too;
/// this worker removes the files of all of them, since some may be killed before they do. Epochs go
/// first: a job that went on from one without the undo log would leave files with what the program
/// has written since.
pub fn end(rt: &Runtime) {
    let Some(mut disk) = rt.disk.level.take() else {
        return;
    };
    if let Some(writer) = &mut disk.writer {
        writer.stop();
    }
    disk.places.remove_job(disk.lineage);
    disk.places.give_up();
    user::end_files_on_disk(rt);
}

/// Where a worker's static data are, or are to be.
pub fn static_path(rt: &Runtime, worker: Worker) -> Option<PathBuf> {
    let level = rt.disk.level.borrow();
    let disk = level.as_ref()?;
    Some(disk.static_path(worker))
}

/// Starts to write an image there, beside the program.
pub fn write_static(
    rt: &Runtime,
    worker: Worker,
    image: &Image,
    store: &PageStore,
) -> io::Result<Writing> {
    let path = static_path(rt, worker).ok_or(ErrorKind::NotFound)?;
    static_file::write(path, image, store)
}

/// The oldest epoch on disk that this process may have to go back to.
pub fn oldest(rt: &Runtime) -> Option<Epoch> {
    let level = rt.disk.level.borrow();
    let disk = level.as_ref()?;
    disk.own.iter().chain(&disk.due).map(|key| key.epoch).min()
}

/// What this worker tells the others at a cut.
pub fn report(rt: &Runtime, store: &mut PageStore, epoch: Epoch) -> Report {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return Report::default();
    };
    disk.settle(store);
    disk.due = None;
    let since = disk
        .written
        .filter(|key| key.lineage == disk.lineage)
        .map_or(Epoch::NONE, |key| key.epoch);
    // After a rollback to an older epoch than the last on disk, the next one is due.
    let is_due = epoch < since || epoch.0 >= since.0 + disk.every;
    Report {
        ready: u64::from(is_due && disk.writing.is_none()),
        trouble: u64::from(disk.trouble.is_some()),
        written: disk.written.map_or(0, checksum),
    }
}

/// What all workers have told, by worker. If all can write, this cut's epoch will be written.
pub fn agreed(rt: &Runtime, reports: &[Report], worker: Worker, epoch: Epoch, recoveries: u32) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let generation = disk.base + u64::from(recoveries);
    let lineage = disk.lineage;
    let key = Key {
        lineage,
        generation,
        epoch,
    };
    disk.due = reports
        .iter()
        .all(|report| report.ready != 0)
        .then_some(key);
    disk.tell(reports, worker);
    let written = disk.written.filter(|&key| {
        let sum = checksum(key);
        reports.iter().all(|report| report.written == sum)
    });
    if let Some(key) = written
        && disk.complete.insert(key)
    {
        log::debug!("epoch {} is complete on disk", key.epoch);
        disk.prune(worker);
    }
}

/// The epoch is committed: writes it if that is due.
pub fn committed(rt: &Runtime, store: &mut PageStore, image: &Image, state: &[u8], worker: Worker) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let Some(key) = disk.due.take().filter(|key| key.epoch == image.epoch()) else {
        return;
    };
    let name = Name { key, worker };
    let head = Head {
        key,
        worker,
        identity: disk.identity.clone(),
        environment: disk.environment,
        state: state.len() as u64,
        runs: image.pages(),
    };
    store.pin(image.runs().iter().map(|run| run.extent()));
    let mut pieces: Vec<Piece> = image.runs().iter().map(|run| kept(run, store)).collect();
    pieces.extend(image.absent().iter().cloned().map(Piece::Absent));
    pieces.sort_unstable_by_key(Piece::first);
    let files = user::written_files(rt);
    let job = Job {
        directory: disk.places.directory.clone(),
        name: name.to_string(),
        head,
        state: state.to_vec(),
        // SAFETY: committed pages never change; they are pinned until `settle` or `finish` has the
        // outcome.
        pages: unsafe { Pages::new(pieces, Some(disk.static_path(worker))) },
        files: files.iter().map(AsRawFd::as_raw_fd).collect(),
    };
    match disk.writer() {
        Ok(writer) => {
            writer.submit(job, files);
            disk.writing = Some(key);
            disk.own.insert(key);
        }
        Err(error) => {
            store.unpin();
            disk.trouble = Some(error.to_string());
        }
    }
}

fn kept(run: &SlotRun, store: &PageStore) -> Piece {
    let (copy, first) = (store.ptr(run.slot).cast_const(), run.pages.start);
    let sums = store.sums(&[*run]);
    Piece::Kept(copy, Sums { first, sums })
}
