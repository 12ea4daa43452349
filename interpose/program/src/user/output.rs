//! Standard output and error, which the relay forwards exactly once (`understudy_relay`).

pub(super) mod ledgers;
pub(super) mod stream_relay;

use crate::process_info;
use crate::user::program_runtime::Runtime;
use std::io;
use std::path::{Path, PathBuf};
use stream_relay::RELAY_TIMEOUT;
pub use stream_relay::{
    StreamPositions, capture, discard_library_output, flush, note_cell, release, report_exit,
    set_idle, set_stage, show_library_output,
};
use understudy_catalogue::message;
use understudy_formats::private_directories::in_memory;
use understudy_formats::worker_output::WorkerOutput;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_relay::{LedgerObserver, NOTE_WORDS, Position, Stream, name_in_memory};

/// Returns the path of a job's file in the user's directory in memory.
pub fn in_job_memory(job: &str, name: &str) -> PathBuf {
    in_memory().join(name_in_memory(job, name))
}

/// Returns the path of this rank's ledger, which its relay is about to create.
///
/// Removes an existing ledger of this name. An earlier job has left that ledger if the job was
/// killed and its launcher had the same process ID as this job's launcher.
pub fn new_ledger(job: &str, process: ProcessNumber) -> PathBuf {
    let path = in_job_memory(job, &process.to_string());
    let _ = std::fs::remove_file(&path);
    path
}

/// Connects to this rank's relay through its ledger.
///
/// `is_silent` is true if the program's output is discarded until its state is loaded.
pub fn attach(rt: &Runtime, path: PathBuf, is_silent: bool) {
    rt.ledgers.borrow_mut().own = Some(path.clone());
    stream_relay::connect(&path, is_silent);
}

/// True if threads on this node have changed files since the cut of `epoch`.
///
/// Only threads without the MPI lock count: their effects are not in the undo log.
pub fn have_effects_since(rt: &Runtime, epoch: Epoch) -> bool {
    let paths = ledgers_of_node(rt);
    let mut ledgers = paths
        .iter()
        .filter_map(|path| LedgerObserver::open(path).ok());
    ledgers.any(|ledger| ledger.effects() > epoch.0)
}

/// Returns the record that a failed process of this node has left in its ledger.
///
/// The record consists of the cause of the failure, and of the exit status if the process exited
/// without `MPI_Finalize`.
pub fn failure_record(
    rt: &Runtime,
    process: ProcessNumber,
) -> Option<([u64; NOTE_WORDS], Option<u32>)> {
    let ledger = LedgerObserver::open(&path_of(rt, process)?).ok()?;
    Some((ledger.note(), ledger.early_exit_status()))
}

/// Restores the output positions of a cut.
///
/// `is_survivor` is true in a process that rolls back, false in a replacement and in a restarted
/// job.
pub fn restore(rt: &Runtime, saved: &StreamPositions, is_survivor: bool) {
    let inherited = rt.ledgers.borrow().inherited;
    stream_relay::restore(saved, is_survivor, inherited);
}

fn ledgers_of_node(rt: &Runtime) -> Vec<PathBuf> {
    rt.ledgers.borrow().of_node(process_info::process_count())
}

fn path_of(rt: &Runtime, process: ProcessNumber) -> Option<PathBuf> {
    rt.ledgers.borrow().path_of(process)
}

/// Returns the positions up to which a failed process's relay has forwarded its streams.
///
/// Waits until the relay has forwarded all output. The positions are [`Position::START`] if the
/// ledger cannot be opened, for example because the process was on another node.
fn final_marks(path: &Path) -> [Position; 2] {
    let Ok(observer) = LedgerObserver::open(path) else {
        return [Position::START; 2];
    };
    Stream::BOTH.map(
        |stream| match observer.final_high_water(stream, RELAY_TIMEOUT) {
            Ok(mark) => mark,
            Err(error) => {
                log::warn!("{}", message::dead_relay_silent(error));
                observer.high_water_line(stream)
            }
        },
    )
}

/// Returns the positions up to which relays of failed processes have forwarded the output.
///
/// The result has a pair of positions (standard output, standard error) for each process in `dead`.
/// The positions are [`Position::START`] for processes of other nodes.
pub fn failed_output(rt: &Runtime, dead: &[ProcessNumber]) -> Vec<[Position; 2]> {
    dead.iter()
        .map(|&rank| path_of(rt, rank).map_or([Position::START; 2], |path| final_marks(&path)))
        .collect()
}

/// Begins the output of a worker in a job that starts from the beginning.
///
/// With `--output` the file of the worker gets its name, and replaces that of an earlier job.
///
/// # Errors
/// Fails if the file cannot be renamed.
pub fn begin_output(worker: Worker) -> io::Result<()> {
    let Some(output) = WorkerOutput::of_environment() else {
        return Ok(());
    };
    std::fs::rename(output.start_file(worker), output.file(worker))
}

/// Continues the output of the earlier job at its end: the positions of the cut.
///
/// Called when a job is restarted. With `--output`, the file of the worker is one of its open
/// files, and the file of this process is removed.
///
/// # Errors
/// Fails with a message if the earlier job had another `--output`.
pub fn continue_from(rt: &Runtime, saved: &StreamPositions, worker: Worker) -> Result<(), String> {
    let output = WorkerOutput::of_environment();
    let own = output.as_ref().map(WorkerOutput::directory);
    if own != saved.worker_output.as_deref() {
        let option = |directory: Option<&Path>| match directory {
            None => "no --output".to_owned(),
            Some(path) => format!("--output {}", path.with_extension("").display()),
        };
        let earlier = option(saved.worker_output.as_deref());
        return Err(message::other_output(earlier, option(own)).to_string());
    }
    if let Some(output) = output {
        let _ = std::fs::remove_file(output.start_file(worker));
    }
    rt.ledgers.borrow_mut().inherited = saved.positions.map(Option::unwrap_or_default);
    Ok(())
}

/// Describes for the user the position at which standard output continues after a restart.
pub fn position(rt: &Runtime) -> String {
    if let Some(output) = WorkerOutput::of_environment() {
        let file = output.directory().with_extension("");
        return format!("its standard output continues in {}", file.display());
    }
    let Position { line, column } = rt.ledgers.borrow().inherited[0];
    let within = match column {
        0 => String::new(),
        _ => format!(" and {column} byte(s)"),
    };
    format!("its standard output continues after the first {line} line(s){within}")
}

/// Sets the positions up to which the replaced process's relay has forwarded output.
pub fn set_inherited(rt: &Runtime, marks: [Position; 2]) {
    rt.ledgers.borrow_mut().inherited = marks;
}

/// Removes the ledgers of the exited processes of this node.
pub fn remove_closed_ledgers(rt: &Runtime) {
    let is_closed =
        |path: &PathBuf| LedgerObserver::open(path).is_ok_and(|ledger| ledger.is_closed());
    for path in ledgers_of_node(rt).into_iter().filter(is_closed) {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the ledger of a failed process that has been replaced.
pub fn remove_ledger(rt: &Runtime, process: ProcessNumber) {
    if let Some(path) = path_of(rt, process) {
        let _ = std::fs::remove_file(path);
    }
}
