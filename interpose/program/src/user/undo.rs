//! Undo log: restores files and names to their state at a cut.
//!
//! [`super::files`] opens the files again that were open at the cut. An *undo log* records how the
//! program has changed files and names since the cut (write, truncate, rename, unlink, mkdir …).
//! The preload library reports each effect before it happens.
//!
//! ```text
//!   record   a call of the program → records that undo the call, backups of destroyed content
//!   log      the records of a rank, in a file in memory that outlives the rank
//!   apply    the records of all ranks of a node, undone in reverse order of time
//! ```
//!
//! A cut starts a new section of the log. A section is needed as long as a process may roll back to
//! its cut: if a rank commits checkpoint n and fails before all others have committed it, the
//! others roll back to n − 1.
//!
//! After a failure the processes of a node get a lock one after the other. The first process undoes
//! the logs of all ranks of the node, including failed ranks; the other processes find no records
//! left. An agreement follows, so that no process resumes before the undo is complete.

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
pub use object::{record_object, record_queue};
use recorder::Recorder;
use recording::WRITTEN;
pub use recording::{
    file_effect, record_call, record_created, record_overwriting, record_range_overwriting, written,
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

/// Stops recording in a process that replays a worker.
///
/// No effect of such a process is undone.
pub fn stop_recording() {
    WRITTEN.reset(false);
    WRITTEN.set_parent(0, 0);
}

/// Returns the location in memory.
fn memory_location() -> LogLocation {
    LogLocation::Memory {
        job: in_file_names(&process_info::job()),
        ranks: process_info::process_count(),
    }
}

/// Returns the location of this job's logs.
fn location(rt: &Runtime) -> LogLocation {
    let on_disk = rt.undo.on_disk.borrow().clone();
    on_disk.unwrap_or_else(memory_location)
}

/// Returns the recorder of this process, which the first call creates.
fn recorder(rt: &Runtime) -> RefMut<'_, Recorder> {
    let create = || {
        let (location, rank) = (memory_location(), process_info::process());
        Recorder::new(location.log_of(rank), &in_memory(), location.job(), &rank)
    };
    RefMut::map(rt.undo.recorder.borrow_mut(), |recorder| {
        recorder.get_or_insert_with(create)
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

/// Undoes the effects of the program so far.
///
/// All processes must be in MPI_Init.
pub fn undo_start(rt: &Runtime) -> Result<(), UserError> {
    if rt.undo.early.take() {
        suspend_children(rt);
        undo_all(rt, memory_location().logs(), RESTART_SECTION)?;
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
    let location = LogLocation::Disk {
        directory: directory.clone(),
        lineage,
        start,
    };
    let fallback = location.fallback_of(&rank);
    let on_disk = Recorder::new(location.log_of(rank), &directory, location.job(), &rank)
        .lasting(fallback.clone());
    let in_memory_instead = |_| {
        let recorder = Recorder::new(fallback.clone(), &in_memory(), location.job(), &rank);
        recorder.on_disk(fallback)
    };
    rt.undo
        .recorder
        .set(Some(on_disk.unwrap_or_else(in_memory_instead)));
    if process_info::config().threads != Threads::Refused {
        warn_if_lost(effects::record_in_file(&location.thread_effects_of(rank)));
    }
    rt.undo.on_disk.set(Some(location));
}

/// Removes the logs on disk at the end of the job, after all workers.
///
/// The job cannot be restarted afterwards.
pub fn end_on_disk(rt: &Runtime) {
    if let Some(location) = rt.undo.on_disk.take() {
        end(rt, false).unwrap_or_default();
        location.clean(true);
    }
}

/// Undoes the effects of earlier starts of the job since the cut of `epoch`.
///
/// Called when the job is restarted from that checkpoint.
pub fn undo_earlier(rt: &Runtime, epoch: Epoch) -> Result<(), UserError> {
    let location = location(rt);
    location.check().map_err(|error| apply::UndoError {
        path: "the undo log".into(),
        error,
    })?;
    if location.have_effects_since(epoch) {
        return Err(UserError::FilesOfThreads);
    }
    undo_all(rt, location.logs(), epoch)?;
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

/// Discards records before the cut of `epoch`.
///
/// No process rolls back to an earlier cut any more.
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
    undo_all(rt, location(rt).logs(), epoch)?;
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

fn undo_all(
    rt: &Runtime,
    logs: io::Result<Vec<PathBuf>>,
    epoch: Epoch,
) -> Result<(), apply::UndoError> {
    let logs = logs.map_err(|error| apply::UndoError {
        path: in_memory(),
        error,
    })?;
    let location = location(rt);
    // The lock is beside the logs, or in memory if the disk cannot be used. A log that could not be
    // written to disk also continues in memory, so each node then has separate logs.
    let [lock, other] = [
        location.log_of(LOCK_OWNER),
        location.fallback_of(&LOCK_OWNER),
    ]
    .map(|log| log.with_extension(log_location::LOCK));
    let locked = lock_undo(&lock).map(|file| (file, lock));
    let (_locked_file, lock) = locked
        .or_else(|_| self::lock_undo(&other).map(|file| (file, other.clone())))
        .map_err(|error| apply::UndoError { path: other, error })?;
    let mut opened = Vec::new();
    for path in logs {
        match undo_log::UndoLog::open(&path) {
            Ok(log) => opened.extend(log),
            Err(_) if location.has_moved(&path) => {}
            Err(error) => return Err(apply::UndoError { path, error }),
        }
    }
    let result = apply::undo(&mut opened, epoch);
    let _ = fs::remove_file(&lock);
    result
}

/// Waits for the lock on undoing, whose file is at `path`.
///
/// The previous owner removes the file before it releases the lock. So a lock on a removed file is
/// void: then the file is created anew, and the new file is locked.
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

/// Stops recording when the rank or the job ends normally, so that no undo follows.
///
/// Removes the logs, unless they are on disk, where a restart may need them.
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

/// Calls `act` for the recorder of child processes, if this recorder exists.
fn on_children<T>(rt: &Runtime, act: impl FnOnce(&ChildEffects) -> T) -> Option<T> {
    rt.undo.child_effects.borrow().as_ref().map(act)
}

/// Starts to record effects of child processes, unless their recorder is already running.
fn record_children(rt: &Runtime) {
    let mut child_effects = rt.undo.child_effects.borrow_mut();
    match &mut *child_effects {
        None if rt.undo.cannot_record_children.get() => {}
        None => {
            *child_effects = ChildEffects::start_or_warn(recorder_of_children(rt));
            rt.undo.cannot_record_children.set(child_effects.is_none());
        }
        Some(effects) if effects.has_ended() => effects.restart(recorder_of_children(rt)),
        Some(_) => return,
    }
    if child_effects.is_some()
        && let Ok(namespace) = child_effects::namespace()
    {
        WRITTEN.set_parent(std::process::id() as i32, namespace);
    }
}

fn recorder_of_children(rt: &Runtime) -> Recorder {
    let (location, process) = (location(rt), process_info::process());
    let log = location.log_of_children(process);
    let label = ChildLogLabel(process);
    match &location {
        LogLocation::Memory { .. } => Recorder::new(log, &in_memory(), location.job(), &label),
        LogLocation::Disk { directory, .. } => {
            Recorder::new(log, directory, location.job(), &label)
                .on_disk(location.fallback_of(&label))
        }
    }
}

/// Suspends child processes at their next change of files.
pub fn suspend_children(rt: &Runtime) {
    on_children(rt, ChildEffects::suspend);
}

/// Resumes child processes that were suspended.
pub fn resume_children(rt: &Runtime) {
    on_children(rt, ChildEffects::resume);
}

/// Removes the logs of a failed process and its children, with their backups.
pub fn discard(process: ProcessNumber) {
    let location = memory_location();
    for path in [location.log_of(process), location.log_of_children(process)] {
        let _ = fs::remove_file(path.with_extension(undo_log::REWRITTEN));
        if let Ok(Some(log)) = undo_log::UndoLog::open(&path) {
            let _ = log.remove();
        }
    }
}

/// Removes the logs of failed processes.
pub fn discard_abandoned() {
    memory_location().clean(false);
}
