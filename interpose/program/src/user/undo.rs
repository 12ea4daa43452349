//! Undo log: restores files and names to their state at a cut.
//!
//! [`super::files`] restores the files that were open at the cut. An *undo log* records what the
//! program has done since to files that it opened and closed, and to names (rename, unlink, mkdir
//! …). The preload library reports each effect before it happens.
//!
//! ```text
//!   note   a call of the program → records that undo the call, and backups of destroyed content
//!   log    the records of a rank, in a file in memory that outlives the rank
//!   apply  the records of all ranks of a node, undone in reverse order of time
//! ```
//!
//! A cut starts a new section of the log. A section is needed as long as a process may roll back to
//! its cut: if a rank commits checkpoint n and fails before all others have committed it, they roll
//! back to n − 1.
//!
//! After a failure one process of each node, which holds a lock, undoes the logs of all ranks,
//! including those of failed ones. Every process then checks that no log has records left. An
//! agreement follows, so that no process resumes before the undo is complete.

mod anchor;
mod apply;
mod awaited;
mod backup;
mod caller;
mod child_effects;
mod effect;
mod file_call;
mod file_id;
mod in_place;
mod inode;
mod keeper;
mod log_location;
mod name_changes;
mod object;
mod outcome;
mod overwrite;
mod recorder;
mod recording;
#[cfg(test)]
mod tests;
mod undo_log;
pub(super) mod undo_state;

use super::{UserError, effects, output};
use crate::process_info;
use crate::user::program_runtime::Runtime;
pub use caller::full_name;
use child_effects::ChildEffects;
pub use file_call::FileCall;
use log_location::{ChildLogLabel, LogLocation};
pub use object::{note_object, note_queue};
use recorder::Recorder;
use recording::WRITTEN;
pub use recording::{
    file_effect, note, note_overwriting, record_created, record_overwriting, written,
};
use std::cell::RefMut;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use understudy_catalogue::message;
use understudy_formats::private_directories::{in_memory, open_own};
use understudy_numbers::{Epoch, ProcessNumber};
pub use understudy_policy::ranges::ByteRange;
use understudy_relay::in_file_names;
use understudy_settings::Threads;

/// Section of a restarted job's effects before its state is loaded.
const RESTART_SECTION: Epoch = Epoch(1);
/// Process whose log determines the name of the lock.
const LOCK_OWNER: ProcessNumber = ProcessNumber(0);

/// Stops recording in a process that replays a worker: none of its effects is undone.
pub fn stop_recording() {
    WRITTEN.reset(false);
    WRITTEN.set_parent(0, 0);
}

fn of_memory() -> LogLocation {
    LogLocation::Memory(
        in_file_names(&process_info::job()),
        process_info::process_count(),
    )
}

fn place(rt: &Runtime) -> LogLocation {
    rt.undo.on_disk.borrow().clone().unwrap_or_else(of_memory)
}

fn recorder(rt: &Runtime) -> RefMut<'_, Recorder> {
    let make = || {
        let (place, rank) = (of_memory(), process_info::process());
        Recorder::new(place.log_of(rank), &in_memory(), place.job(), &rank)
    };
    RefMut::map(rt.undo.recorder.borrow_mut(), |recorder| {
        recorder.get_or_insert_with(make)
    })
}

/// Starts to record before MPI_Init, in a job that is restarted.
///
/// The effects are those of the program before its state is replaced by the checkpoint's.
pub fn record_from_start(rt: &Runtime) {
    rt.undo.early.set(true);
    recorder(rt).begin(RESTART_SECTION);
    record_children(rt);
    on_children(rt, |children| children.begin(RESTART_SECTION));
    WRITTEN.reset(true);
}

/// Undoes the effects of the program so far. All processes must be in MPI_Init.
pub fn undo_start(rt: &Runtime) -> Result<(), UserError> {
    if rt.undo.early.take() {
        suspend_children(rt);
        undo_all(rt, of_memory().logs(), RESTART_SECTION)?;
        end(rt, false).unwrap_or_default();
    }
    Ok(())
}

/// Moves the log to a directory, so that the job can be restarted.
///
/// The log stays in memory if the directory cannot be used; then there are no checkpoints on disk
/// either.
pub fn keep_on_disk(rt: &Runtime, directory: &Path, lineage: u64, start: u64) {
    let (lineage, rank) = (format!("{lineage:016x}"), process_info::process());
    let directory = directory.to_owned();
    let place = LogLocation::Disk {
        directory: directory.clone(),
        lineage,
        start,
    };
    let refuge = place.fallback_of(&rank);
    let on_disk =
        Recorder::new(place.log_of(rank), &directory, place.job(), &rank).lasting(refuge.clone());
    let otherwise = |_| {
        let recorder = Recorder::new(refuge.clone(), &in_memory(), place.job(), &rank);
        recorder.on_disk(refuge)
    };
    rt.undo
        .recorder
        .set(Some(on_disk.unwrap_or_else(otherwise)));
    if process_info::config().threads != Threads::Refused {
        warn_if_lost(effects::record_in_file(&place.of_threads(rank)));
    }
    rt.undo.on_disk.set(Some(place));
}

/// Removes the logs on disk at the end of the job, after all workers.
///
/// No restart can follow.
pub fn end_on_disk(rt: &Runtime) {
    if let Some(place) = rt.undo.on_disk.take() {
        end(rt, false).unwrap_or_default();
        place.clean(true);
    }
}

/// Undoes the effects of earlier starts of the job since the cut of `epoch`.
///
/// Called when the job is restarted from that checkpoint.
pub fn undo_earlier(rt: &Runtime, epoch: Epoch) -> Result<(), UserError> {
    let place = place(rt);
    place.check().map_err(|error| apply::UndoError {
        path: "the undo log".into(),
        error,
    })?;
    if place.have_effects_since(epoch) {
        return Err(UserError::FilesOfThreads);
    }
    undo_all(rt, place.logs(), epoch)?;
    begin(rt, epoch);
    Ok(())
}

fn warn_if_lost(result: io::Result<()>) {
    if let Err(error) = result {
        ::log::warn!("{}", message::file_log_lost(error));
    }
}

/// Starts the section of `epoch`, at its cut.
pub fn begin(rt: &Runtime, epoch: Epoch) {
    effects::begin_section(epoch);
    recorder(rt).begin(epoch);
    record_children(rt);
    on_children(rt, |children| children.begin(epoch));
    WRITTEN.reset(true);
}

/// Discards records before the cut of `epoch`, to which no process rolls back any more.
pub fn forget_before(rt: &Runtime, epoch: Epoch) {
    warn_if_lost(recorder(rt).forget_before(epoch));
    on_children(rt, |children| children.forget_before(epoch));
}

/// Undoes the effects of all ranks of this node since the cut of `epoch`.
///
/// All living processes must be in the recovery.
pub fn undo(rt: &Runtime, epoch: Epoch) -> Result<(), UserError> {
    if output::have_effects_since(rt, epoch) {
        return Err(UserError::FilesOfThreads);
    }
    undo_all(rt, place(rt).logs(), epoch)?;
    effects::begin_section(epoch);
    warn_if_lost(recorder(rt).resume(epoch));
    record_children(rt);
    on_children(rt, |children| children.follow_rollback(epoch));
    WRITTEN.reset(true);
    Ok(())
}

impl From<apply::UndoError> for UserError {
    fn from(failed: apply::UndoError) -> UserError {
        UserError::File {
            path: failed.path.display().to_string(),
            why: failed.error.to_string(),
        }
    }
}

fn undo_all(rt: &Runtime, logs: Vec<PathBuf>, epoch: Epoch) -> Result<(), apply::UndoError> {
    let place = place(rt);
    // A log that could not be written to disk continues in memory, so each node has a separate log.
    let [lock, other] = [place.log_of(LOCK_OWNER), place.fallback_of(&LOCK_OWNER)]
        .map(|log| log.with_extension(log_location::LOCK));
    let alone = lock_undo(&lock).map(|file| (file, lock));
    let (_alone, lock) = alone
        .or_else(|_| self::lock_undo(&other).map(|file| (file, other.clone())))
        .map_err(|error| apply::UndoError { path: other, error })?;
    let mut open = Vec::new();
    for path in logs {
        match undo_log::UndoLog::open(&path) {
            Ok(log) => open.extend(log),
            Err(_) if place.has_moved(&path) => {}
            Err(error) => return Err(apply::UndoError { path, error }),
        }
    }
    let done = apply::undo(&mut open, epoch);
    let _ = fs::remove_file(&lock);
    done
}

/// Waits until no other process holds the lock.
///
/// The process that releases the lock removes the file, so it may have to be created anew.
fn lock_undo(path: &Path) -> io::Result<File> {
    loop {
        let file = open_own(path, libc::O_WRONLY | libc::O_CREAT)?;
        file.lock()?;
        let inode = file.metadata()?.ino();
        if fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode) {
            return Ok(file);
        }
    }
}

/// Releases the logs when the rank or the job ends regularly.
///
/// No undo follows.
pub fn release(rt: &Runtime) {
    let is_kept = rt.undo.on_disk.borrow().is_some();
    warn_if_lost(end(rt, is_kept));
}

/// Stops recording, and removes the logs unless a restart needs them.
fn end(rt: &Runtime, is_kept: bool) -> io::Result<()> {
    WRITTEN.reset(false);
    WRITTEN.set_parent(0, 0);
    let of_children = on_children(rt, |children| children.end(is_kept)).unwrap_or(Ok(()));
    match rt.undo.recorder.take() {
        Some(mut recorder) if !is_kept => recorder.end().and(of_children),
        _ => of_children,
    }
}

/// Calls `act` for the recorder of child processes, if there is one.
fn on_children<T>(rt: &Runtime, act: impl FnOnce(&ChildEffects) -> T) -> Option<T> {
    rt.undo.child_effects.borrow().as_ref().map(act)
}

/// Starts to record effects of child processes, unless this has been done.
fn record_children(rt: &Runtime) {
    let mut notes = rt.undo.child_effects.borrow_mut();
    match &mut *notes {
        None if rt.undo.cannot_note_child_effects.get() => {}
        None => {
            *notes = ChildEffects::start_or_warn(recorder_of_children(rt));
            rt.undo.cannot_note_child_effects.set(notes.is_none());
        }
        Some(notes) if notes.has_ended() => notes.restart(recorder_of_children(rt)),
        Some(_) => return,
    }
    if notes.is_some()
        && let Ok(namespace) = child_effects::namespace()
    {
        WRITTEN.set_parent(std::process::id() as i32, namespace);
    }
}

fn recorder_of_children(rt: &Runtime) -> Recorder {
    let (place, process) = (place(rt), process_info::process());
    let log = place.log_of_children(process);
    let label = ChildLogLabel(process);
    match &place {
        LogLocation::Memory(..) => Recorder::new(log, &in_memory(), place.job(), &label),
        LogLocation::Disk { directory, .. } => {
            Recorder::new(log, directory, place.job(), &label).on_disk(place.fallback_of(&label))
        }
    }
}

/// Suspends child processes that are about to change files.
pub fn suspend_children(rt: &Runtime) {
    on_children(rt, ChildEffects::suspend);
}

/// Resumes child processes that were suspended.
pub fn resume_children(rt: &Runtime) {
    on_children(rt, ChildEffects::resume);
}

/// Removes the log of a failed process, with its backups.
pub fn discard(process: ProcessNumber) {
    let place = of_memory();
    for path in [place.log_of(process), place.log_of_children(process)] {
        let _ = fs::remove_file(path.with_extension(undo_log::REWRITTEN));
        if let Ok(Some(log)) = undo_log::UndoLog::open(&path) {
            let _ = log.remove();
        }
    }
}

/// Removes the logs of failed processes.
pub fn discard_abandoned() {
    of_memory().clean(false);
}
