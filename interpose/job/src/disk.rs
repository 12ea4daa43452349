//! Disk level: checkpoints in files, from which a whole job can be restarted (`UNDERSTUDY_DISK`).
//!
//! ```text
//!   cut       workers exchange: can write? last file written?           → report, agreed
//!   commit    if all can, each writes its file while the program runs   → committed, writer
//!   restart, or the loss of a rank and of all its replicas:
//!             the newest checkpoint of which all workers have whole files  → choose, load
//! ```
//!
//! - `understudy_formats::epochs` defines the names of the files and their contents;
//! - `identity`: properties that a file and the process that loads it must share;
//! - `writer`: the thread that writes; `load`: from a file to an image; `choose`: the newest
//!   checkpoint that all workers have;
//! - `agreed_claim`: the claim of the directory for the job;
//! - `checkpoint_directory`: the directory, and this job's files in it.
//!
//! While the job runs, each worker writes, finds and removes only its own files, and the workers
//! communicate to determine which checkpoints all of them have. The directory may therefore also be
//! on a local disk of each node, as long as ranks are restarted on their nodes.
#![allow(unsafe_code)]

mod agreed_claim;
mod checkpoint_directory;
mod choose;
mod disk_level;
mod identity;
mod load;
mod progress;
mod requested;
mod static_file;
mod writer;

use crate::{Runtime, process_info, system_calls, user};
use agreed_claim::{claim, claim_late};
pub use checkpoint_directory::{decide_restart, explain};
use disk_level::DiskLevel;
pub(crate) use disk_level::DiskState;
use epoch_files::EpochFileName;
use epoch_format::{EpochHead, JobIdentity};
pub use load::LoadedCheckpoint;
pub use progress::{last_complete, time_to_disk};
pub use requested::{await_file, record_complete, report_failure};
pub use static_file::{StaticFile, StaticFileWrite};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Instant;
use understudy_catalogue::message;
pub use understudy_formats::epochs::epoch_files::EpochKey;
use understudy_formats::epochs::{epoch_files, epoch_format};
use understudy_formats::events::realtime_ns;
use understudy_image::absent_pages::PageSums;
use understudy_image::image_delta::{Image, SlotRun};
use understudy_image::store::PageStore;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, Rank, Worker};
use understudy_policy::cut_agreement::{DiskReport, JointDiskReport};
use understudy_settings::Restart;
use writer::{CheckpointPages, PageSource, WriteJob, Writer};
use xxhash_rust::xxh3::xxh3_64;

fn checksum(key: EpochKey) -> u64 {
    let parts = [key.lineage, key.term, key.generation, key.epoch.0];
    xxh3_64(&parts.map(u64::to_le_bytes).concat()).max(1)
}

/// True if the job has a disk level.
pub fn has_disk_level(rt: &Runtime) -> bool {
    rt.disk.level.borrow().is_some()
}

/// Returns the identity of the files of this worker.
fn identity(rt: &Runtime, workers: u32) -> JobIdentity {
    identity::own_identity(user::layout(rt), workers)
}

/// Opens the directory if a disk level is configured. Collective over all processes.
///
/// Returns true if the job continues from a checkpoint on disk, which has been loaded. The inner
/// error is the reason for which the job must not start.
///
/// # Errors
/// Fails if a procedure of the MPI library fails.
pub fn open(
    rt: &Runtime,
    comm: RealComm,
    worker: Worker,
    workers: u32,
    store: &mut PageStore,
) -> mpi::Result<Result<bool, String>> {
    let config = process_info::config();
    let Some(directory) = &config.disk else {
        return Ok(Ok(false));
    };
    let nonce = match comm.rank()? {
        Rank(0) => process_info::job_nonce().unwrap_or_else(|_| realtime_ns()),
        _ => 0,
    };
    let &[lineage, nonce] = &*comm.broadcast(Rank(0), vec![realtime_ns(), nonce])? else {
        return Err(mpi::Error::INTERN);
    };
    let mut level = rt.disk.level.borrow_mut();
    let disk = level.insert(DiskLevel::new(
        directory,
        lineage,
        nonce,
        identity(rt, workers),
    ));
    let place = disk.places.directory.display().to_string();
    if let Some(why) = claim(disk, comm, worker)? {
        return Ok(Err(format!("{place}: {why}")));
    }
    disk.places.remove_torn(worker);
    disk.places.remove_static(worker);
    let is_restart = config.restart == Restart::Always;
    if choose::differs(comm, is_restart)? {
        return Ok(Err(message::directory_not_shared(place).to_string()));
    }
    if !is_restart {
        let found = choose::keys_of_all(disk, comm, worker)?;
        if let Some(key) = found.iter().flatten().max() {
            // Only a checkpoint of all workers is worth more than a new start.
            if config.restart == Restart::Never || choose::is_any_complete(&found) {
                return Ok(Err(
                    message::earlier_checkpoints(place, key.epoch).to_string()
                ));
            }
            let keys = found.iter().flatten();
            disk.places.remove_earlier_runs(keys.map(|key| key.lineage));
            if worker == Worker(0) {
                system_calls::print_message(message::incomplete_checkpoints(place));
            }
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
        None => Err(message::no_checkpoint_to_restart(place, workers).to_string()),
    })
}

/// Data of the disk level that a process needs when it joins the job later.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
pub struct DiskInfo {
    lineage: u64,
    start: u64,
    term: u64,
    nonce: u64,
}

/// Returns the data of the disk level for joining processes; `None` without a disk level.
pub fn disk_info(rt: &Runtime) -> Option<DiskInfo> {
    let info = |disk: &DiskLevel| DiskInfo {
        lineage: disk.lineage,
        start: disk.start,
        term: disk.term,
        nonce: disk.nonce,
    };
    rt.disk.level.borrow().as_ref().map(info)
}

/// Sets up the disk level of a process that joins the job later.
pub fn join(rt: &Runtime, info: DiskInfo, workers: u32) {
    let Some(directory) = &process_info::config().disk else {
        return;
    };
    let mut level = rt.disk.level.borrow_mut();
    let disk = level.insert(DiskLevel::new(
        directory,
        info.lineage,
        info.nonce,
        identity(rt, workers),
    ));
    (disk.start, disk.term) = (info.start, info.term);
    claim_late(disk);
    user::keep_files_on_disk(rt, &disk.places.directory, info.lineage, info.start);
}

/// Finds the newest checkpoint of which all workers have whole files, and loads it.
///
/// The loaded file is that of the worker that this process is or replaces. Collective over all
/// processes.
pub fn choose(
    rt: &Runtime,
    comm: RealComm,
    worker: Worker,
    store: &mut PageStore,
) -> mpi::Result<Option<EpochKey>> {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return Ok(None);
    };
    disk.finish(store);
    disk.discard_loaded(store);
    let Some(found) = choose::choose(disk, comm, worker, store)? else {
        return Ok(None);
    };
    disk.lineage = found.key.lineage;
    disk.chosen = Some((found.key, Some(found.loaded)));
    Ok(Some(found.key))
}

/// Discards a checkpoint that was loaded and not used, before the store is replaced.
pub fn discard_loaded(rt: &Runtime, store: &mut PageStore) {
    if let Some(disk) = &mut *rt.disk.level.borrow_mut() {
        disk.discard_loaded(store);
    }
}

/// Returns the checkpoint that this process has loaded from disk, once.
///
/// Worker 0 logs if the environment differs from that of the start which wrote the checkpoint.
pub fn take_chosen(rt: &Runtime) -> Option<LoadedCheckpoint> {
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

/// Makes this checkpoint, to which all workers have rolled back, the last one on disk.
///
/// Removes this worker's files of newer checkpoints. Does nothing unless this or an earlier attempt
/// has chosen this checkpoint from disk.
pub fn resume_from(rt: &Runtime, worker: Worker, epoch: Epoch) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let is_it = |(key, loaded): &mut (EpochKey, Option<LoadedCheckpoint>)| {
        key.epoch == epoch && loaded.is_none()
    };
    let Some((key, _)) = disk.chosen.take_if(is_it) else {
        return;
    };
    (disk.written, disk.due, disk.complete_keys) = (Some(key), None, BTreeSet::from([key]));
    progress::set_last_complete(key.epoch);
    disk.own_keys.retain(|other| *other <= key);
    disk.own_keys.insert(key);
    if !disk.places.may_change() {
        return;
    }
    let newer: Vec<EpochKey> = disk
        .places
        .keys(worker)
        .into_iter()
        .filter(|other| *other > key)
        .collect();
    disk.places.remove(worker, &newer);
    disk.places.remove_torn(worker);
}

/// Returns the key for the checkpoint of the current cut.
///
/// `None` if the checkpoint will not be written.
pub fn due_key(rt: &Runtime) -> Option<EpochKey> {
    rt.disk.level.borrow().as_ref()?.due
}

/// Writes a file that a failed predecessor may not have written.
///
/// This process has replaced a worker at a checkpoint that was to be written with this key. Without
/// this worker's file, no restart could use the checkpoint, and perhaps no older checkpoint is on
/// disk. Nothing is written if the file exists, or if the replica lacks pages.
pub fn take_over(
    rt: &Runtime,
    worker: Worker,
    key: Option<EpochKey>,
    store: &mut PageStore,
    image: &Image,
    state: &[u8],
) {
    let mut level = rt.disk.level.borrow_mut();
    let Some(disk) = &mut *level else { return };
    let files = disk.places.keys(worker).into_iter();
    disk.own_keys = files.filter(|key| key.lineage == disk.lineage).collect();
    disk.files = None;
    disk.places.remove_torn(worker);
    disk.due = key.filter(|key| !disk.own_keys.contains(key) && image.absent().is_empty());
    drop(level);
    write_if_due(rt, store, image, state, worker);
}

/// Stops the writer at the end of this worker.
///
/// A file that is not complete is abandoned: no file appears after the workers' last agreement.
pub fn stop_writing(rt: &Runtime, store: &mut PageStore) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    if let Some(outcome) = disk.writer.as_mut().and_then(Writer::stop) {
        disk.record_outcome(outcome, store);
    }
}

/// Ends the disk level, and removes the files of all workers.
///
/// All workers are at their end. This worker removes the files of all workers in its directory,
/// since other workers may be killed before they remove their files. Checkpoints are removed before
/// the undo log: a job that was restarted from a checkpoint without the undo log would leave data
/// in the program's files that were written after the checkpoint.
pub fn remove_job_files(rt: &Runtime) {
    let Some(mut disk) = rt.disk.level.take() else {
        return;
    };
    if let Some(writer) = &mut disk.writer {
        writer.stop();
    }
    if disk.places.ownership.is_some() && !disk.places.may_change() {
        return;
    }
    disk.places.remove_job(disk.lineage);
    disk.places.release();
    user::end_files_on_disk(rt);
}

/// Returns the message about the job that has taken over the directory.
///
/// `None` if this job may continue. Asks the file system if `asks`; otherwise an earlier finding
/// counts.
pub fn loss(rt: &Runtime, asks: bool) -> Option<String> {
    let disk = &mut *rt.disk.level.borrow_mut();
    let places = &mut disk.as_mut()?.places;
    if asks {
        places.may_change();
    }
    places.is_lost.then(|| places.loss())
}

/// Returns the path of a worker's static data, which need not exist yet.
pub fn static_path(rt: &Runtime, worker: Worker) -> Option<PathBuf> {
    let level = rt.disk.level.borrow();
    let disk = level.as_ref()?;
    Some(disk.static_path(worker))
}

/// Starts to write an image to the file of static data, while the program runs.
pub fn write_static(
    rt: &Runtime,
    worker: Worker,
    image: &Image,
    store: &PageStore,
) -> io::Result<StaticFileWrite> {
    let path = static_path(rt, worker).ok_or(ErrorKind::NotFound)?;
    static_file::write(path, image, store)
}

/// Returns the oldest checkpoint on disk to which this process may have to roll back.
pub fn oldest_needed(rt: &Runtime) -> Option<Epoch> {
    let level = rt.disk.level.borrow();
    let disk = level.as_ref()?;
    disk.own_keys
        .iter()
        .chain(&disk.due)
        .map(|key| key.epoch)
        .min()
}

/// Returns this worker's report for the other workers at a cut.
pub fn report(rt: &Runtime, store: &mut PageStore, epoch: Epoch) -> DiskReport {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return DiskReport::default();
    };
    disk.poll_writer(store);
    disk.due = None;
    claim_late(disk);
    let since = disk
        .written
        .filter(|key| key.lineage == disk.lineage)
        .map_or(Epoch::NONE, |key| key.epoch);
    // After a rollback to an older checkpoint than the last on disk, the next checkpoint is due.
    let is_due = epoch < since || epoch.0 >= since.0 + disk.every;
    DiskReport {
        is_ready: is_due && disk.writing.is_none() && disk.places.ownership.is_some(),
        has_trouble: disk.trouble.is_some(),
        written: disk.written.map_or(0, checksum),
    }
}

/// Evaluates the reports of all workers.
///
/// The checkpoint of this cut will be written if all workers are ready, or if it `is_requested`. If
/// the last file of each worker is of one checkpoint, this checkpoint is complete, and older files
/// of this worker are removed.
pub fn evaluate_reports(
    rt: &Runtime,
    reports: JointDiskReport,
    worker: Worker,
    epoch: Epoch,
    recoveries: u32,
    is_requested: bool,
) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let key = EpochKey {
        lineage: disk.lineage,
        term: disk.term,
        generation: recoveries.into(),
        epoch,
    };
    disk.due = (reports.is_ready || is_requested).then_some(key);
    disk.cut = Instant::now();
    disk.report_trouble(reports.first_with_trouble, worker);
    let written = disk
        .written
        .filter(|&key| reports.written == Some(checksum(key)));
    if let Some(key) = written {
        disk.complete(key, worker);
    }
}

/// Starts to write the committed checkpoint, if its file is due.
pub fn write_if_due(
    rt: &Runtime,
    store: &mut PageStore,
    image: &Image,
    state: &[u8],
    worker: Worker,
) {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return;
    };
    let Some(key) = disk.due.take().filter(|key| key.epoch == image.epoch()) else {
        return;
    };
    // A requested checkpoint is written after the one that is being written.
    disk.finish(store);
    let Some(ownership) = &disk.places.ownership else {
        return;
    };
    let name = EpochFileName { key, worker };
    let head = EpochHead {
        key,
        worker,
        identity: disk.identity.clone(),
        environment: disk.environment,
        state: state.len() as u64,
        runs: image.pages(),
    };
    store.pin(image.runs().iter().map(|run| run.extent()));
    let mut pieces: Vec<PageSource> = image
        .runs()
        .iter()
        .map(|run| kept_piece(run, store))
        .collect();
    pieces.extend(image.absent().iter().cloned().map(PageSource::Absent));
    pieces.sort_unstable_by_key(PageSource::first);
    let files = user::written_files(rt);
    let job = WriteJob {
        directory: disk.places.directory.clone(),
        owner: ownership.file().clone(),
        name: name.to_string(),
        cut: disk.cut,
        head,
        state: state.to_vec(),
        // SAFETY: committed pages never change, and are pinned until the outcome has been received
        // (`record_outcome`).
        pages: unsafe { CheckpointPages::new(pieces, Some(disk.static_path(worker))) },
        files: files.iter().map(AsRawFd::as_raw_fd).collect(),
    };
    match disk.writer() {
        Ok(writer) => {
            writer.submit(job, files);
            disk.writing = Some(key);
            disk.own_keys.insert(key);
        }
        Err(error) => {
            store.unpin();
            disk.trouble = Some(error.to_string());
        }
    }
}

fn kept_piece(run: &SlotRun, store: &PageStore) -> PageSource {
    let (copy, first) = (store.ptr(run.slot).cast_const(), run.pages.start);
    let sums = store.sums(&[*run]);
    PageSource::Kept(copy, PageSums { first, sums })
}
