//! Supervision of the launcher, from its start to the exit status of the job.

use super::failures::cannot;
use super::output_file::OutputFile;
use super::progress::{Progress, ProgressDisplay};
use super::settings::Settings;
use super::start::{Running, Start};
use super::verdict::{Verdict, verdict};
use crate::outcome::Failure;
use crossbeam_channel::{Receiver, select, tick};
use std::fs::DirEntry;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_formats::epochs::epoch_files::EpochFileName;
use understudy_formats::events::realtime_ns;
use understudy_formats::events::{HEADER_LEN, rank_of_file_name};
use understudy_formats::host::host_name;
use understudy_launch::print_message;
use understudy_node::EVENTS_PREFIX;
use understudy_report::{Live, Protection, RunRecord, count};

/// Interval between two polls of the event files.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Directory in which the ranks write their event files.
pub enum Events {
    /// Directory that the user has named, or that a dry run would use.
    Named(PathBuf),
    /// Directory that is removed at the end of the run.
    Temporary(tempfile::TempDir),
}

impl Events {
    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// Returns the directory for event files, after removal of an earlier job's event files.
///
/// Without `--events`, the directory is temporary. A temporary directory for several hosts is
/// created in the working directory, which the hosts most likely share.
/// A dry run neither creates nor removes files.
pub fn event_directory(
    settings: &Settings,
    spans_hosts: bool,
    dry_run: bool,
) -> Result<Events, Failure> {
    if let Some(path) = settings.get("UNDERSTUDY_EVENTS") {
        let path =
            std::path::absolute(path).map_err(|error| cannot(format!("--events: {error}")))?;
        if !dry_run {
            remove_event_files(&path).map_err(|error| {
                cannot(format!(
                    "--events: {} cannot be created or emptied: {error}. Choose a directory that \
                     can be written to.",
                    path.display()
                ))
            })?;
        }
        return Ok(Events::Named(path));
    }
    let parent = if spans_hosts {
        PathBuf::from(".")
    } else {
        std::env::temp_dir()
    };
    if dry_run {
        return Ok(Events::Named(parent.join(format!("{EVENTS_PREFIX}events"))));
    }
    let parent = std::path::absolute(&parent).unwrap_or(parent);
    let directory = tempfile::Builder::new()
        .prefix(&format!("{EVENTS_PREFIX}{}-", std::process::id()))
        .tempdir_in(&parent);
    directory.map(Events::Temporary).map_err(|error| {
        cannot(format!(
            "no directory for event files can be made in {}: {error}. Name one with --events.",
            parent.display()
        ))
    })
}

fn remove_event_files(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_str()
            .and_then(rank_of_file_name)
            .is_some()
        {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A job that can be started.
pub struct Job {
    pub start: Start,
    pub events: Events,
    pub workers: u32,
    pub disk: Option<PathBuf>,
    /// File that collects the output of the workers.
    pub output: Option<OutputFile>,
}

/// Starts a job, reports its progress, and returns its exit status.
pub fn run(mut job: Job, progress: Progress) -> Result<u8, Failure> {
    let mut record = Record::begin(&job.events);
    let mut display = ProgressDisplay::new(progress);
    let Running { end, signal, pumps } = job.start.run(display.terminal().as_ref())?;
    let mut live = Live::new(job.events.path());
    let end = attend(&end, &mut live, &mut display, job.output.as_mut())?;
    let output_error = pumps
        .into_iter()
        .filter_map(|pump| pump.join().ok()?.err())
        .next();
    let launcher = end.unwrap_or_else(|why| {
        print_message(why);
        match live.poll() {
            Ok(Some(_)) => exit_status::INTERNAL as u8,
            _ => exit_status::NOT_STARTED as u8,
        }
    });
    let end = End {
        launcher,
        signal: signal.load(SeqCst),
        workers: job.workers,
    };
    let status = conclude(
        &end,
        &mut live,
        &mut display,
        &job.events,
        job.disk.as_deref(),
    );
    let status = match (output_error, status) {
        (Some(error), 0) => {
            print_message(format_args!(
                "what the program has printed could not be written ({error}), and the rest of it \
                 is lost; make room there"
            ));
            exit_status::STATE_NOT_SAVED as u8
        }
        _ => status,
    };
    let has_checkpoints = job.disk.as_deref().is_some_and(has_checkpoints);
    let is_incomplete = job
        .output
        .and_then(|output| output.finish(!has_checkpoints));
    let status = is_incomplete.filter(|_| status == 0).unwrap_or(status);
    record.end(status, end.signal);
    Ok(status)
}

/// Reports progress until the launcher ends, and returns its result.
fn attend(
    end: &Receiver<Result<u8, String>>,
    live: &mut Live,
    display: &mut ProgressDisplay,
    mut output: Option<&mut OutputFile>,
) -> Result<Result<u8, String>, Failure> {
    let ticks = tick(POLL_INTERVAL);
    loop {
        select! {
            recv(end) -> end => {
                return end.map_err(|_| cannot("the thread that waits for the launcher has ended"));
            }
            recv(ticks) -> _ => {
                if let Some(output) = &mut output {
                    output.poll();
                }
                // Without event files the job continues.
                if let Ok(Some(state)) = live.poll() {
                    display.show(state);
                }
            }
        }
    }
}

/// End of a job as the launcher reports it.
struct End {
    /// Exit status of the launcher.
    launcher: u8,
    /// Number of the last signal that may have ended the job, or 0.
    signal: i32,
    /// Number of workers that the user has requested.
    workers: u32,
}

/// Reports the result of the job and returns its exit status.
fn conclude(
    end: &End,
    live: &mut Live,
    display: &mut ProgressDisplay,
    events: &Events,
    disk: Option<&Path>,
) -> u8 {
    let state = live.poll().ok().flatten();
    // If events could not be written, their absence proves nothing.
    let are_events_incomplete = has_torn_headers(events.path()) || !has_room(events.path());
    let mut verdict = verdict(state, end.launcher, are_events_incomplete);
    // A signal replaces the verdict unless the job has completed in the meantime, or has stopped
    // with a checkpoint that the signal has requested.
    let has_stopped = i32::from(verdict.status) == exit_status::CHECKPOINTED;
    let was_ended = end.signal != 0 && !has_stopped && (verdict.status != 0 || state.is_none());
    if was_ended {
        verdict = Verdict {
            status: 128 + end.signal as u8,
            remark: Some(signal_message(end.signal, disk)),
        };
    }
    display.end(state, verdict.status);
    if let Some(state) = state
        && state.workers != end.workers
    {
        print_message(format_args!(
            "the program had {} instead of {}",
            count(state.workers, "rank", "ranks"),
            end.workers
        ));
    }
    if let Some(remark) = &verdict.remark {
        print_message(remark);
    }
    if let Some(Protection::Refused(why)) = state.map(|state| &state.protection) {
        log::info!("unprotected: {why}");
    }
    for problem in live.problems() {
        log::warn!("{problem}");
    }
    verdict.status
}

/// True if a directory has checkpoints, from which the job can be continued.
fn has_checkpoints(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .into_iter()
        .any(|name| EpochFileName::parse(&name).is_some())
}

/// Returns a message that names the signal and the way to continue the job.
fn signal_message(signal: i32, disk: Option<&Path>) -> String {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    let next = match disk {
        Some(disk) => format!(
            "the same command with --restart continues from the last checkpoint in {}",
            disk.display()
        ),
        None => {
            "no checkpoint is on disk (--disk DIR writes some there), so the job can only start \
            from the beginning"
                .to_owned()
        }
    };
    format!("{name} has ended the job; {next}")
}

/// Returns true if a file of 4096 bytes can be written in the directory.
fn has_room(directory: &Path) -> bool {
    let file = tempfile::tempfile_in(directory);
    file.and_then(|mut file| file.write_all(&[0; 4096])).is_ok()
}

/// Returns true if the directory has an event file that is shorter than its header.
fn has_torn_headers(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_events = |entry: &DirEntry| {
        entry
            .file_name()
            .to_str()
            .and_then(rank_of_file_name)
            .is_some()
    };
    let length = |entry: DirEntry| entry.metadata().map_or(0, |metadata| metadata.len());
    entries
        .filter(is_events)
        .map(length)
        .any(|length| length < HEADER_LEN as u64)
}

/// Record of the run beside event files whose directory the user has named.
struct Record(Option<(PathBuf, RunRecord)>);

impl Record {
    fn begin(events: &Events) -> Self {
        let Events::Named(directory) = events else {
            return Self(None);
        };
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let host = host_name();
        let run = RunRecord {
            command: words.collect(),
            host,
            started_ns: realtime_ns(),
            ended_ns: None,
            status: None,
            signal: None,
        };
        let record = Self(Some((directory.clone(), run)));
        record.write();
        record
    }

    fn end(&mut self, status: u8, signal: i32) {
        if let Some((_, run)) = &mut self.0 {
            run.ended_ns = Some(realtime_ns());
            run.status = Some(status);
            run.signal = (signal != 0).then_some(signal);
        }
        self.write();
    }

    fn write(&self) {
        // The job continues without a record.
        if let Some((directory, run)) = &self.0
            && let Err(error) = run.write(directory)
        {
            log::info!("no record of the run in {}: {error}", directory.display());
        }
    }
}
