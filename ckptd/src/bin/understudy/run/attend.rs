//! From the launcher's start to its end.

use super::failures::cannot;
use super::progress::{Progress, Teller, Terminal};
use super::settings::Settings;
use super::signals::Signals;
use super::verdict::{Verdict, verdict};
use crate::outcome::{Failure, Outcome, tell};
use crossbeam_channel::{bounded, select, tick};
use std::ffi::OsString;
use std::fs::DirEntry;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::Duration;
use understudy_formats::events::realtime_ns;
use understudy_formats::events::{HEADER_LEN, rank_of_file_name};
use understudy_launch::{UNWRITTEN, end_with_parent, is_unwanted};
use understudy_node::EVENTS_PREFIX;
use understudy_report::{Live, Protection, RunRecord, count};
use understudy_settings::SECRET;

/// How often the event files are looked at.
const PERIOD: Duration = Duration::from_millis(200);

/// Where the ranks write their event files.
pub enum Events {
    /// Where the user wants them.
    Named(PathBuf),
    /// Removed at the end.
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

/// The directory for event files; of an earlier job's files there it keeps none. One that nobody
/// has named is in the working directory if there are several hosts, since that is most likely to
/// be the same for all.
pub fn event_directory(
    settings: &Settings,
    spans_hosts: bool,
    dry_run: bool,
) -> Result<Events, Failure> {
    if let Some(path) = settings.get("UNDERSTUDY_LOG_DIR") {
        let path =
            std::path::absolute(path).map_err(|error| cannot(format!("--log-dir: {error}")))?;
        if !dry_run {
            remove_event_files(&path).map_err(|error| {
                cannot(format!(
                    "--log-dir: {}: {error}. Choose a directory that can be written to.",
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
            "no directory for event files can be made in {}: {error}. Name one with --log-dir.",
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
    /// The launcher's command line.
    pub line: Vec<OsString>,
    /// The value of UNDERSTUDY_SECRET.
    pub secret: Option<OsString>,
    pub events: Events,
    pub workers: u32,
    pub disk: Option<PathBuf>,
}

/// Runs the launcher and tells how the job gets on.
pub fn run(job: &Job, progress: Progress) -> Outcome {
    let line = &job.line;
    let mut record = Record::begin(&job.events);
    let mut teller = Teller::new(progress);
    let signals = Signals::catch()?;
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .envs(job.secret.iter().map(|secret| (SECRET, secret)));
    let terminal = teller.terminal();
    if terminal.is_some() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    // A job without its launcher's parent could not be ended, and would compete with a restart.
    end_with_parent(&mut command);
    let mut child = command.spawn().map_err(|error| {
        cannot(format!(
            "{} cannot be executed: {error}",
            Path::new(&line[0]).display()
        ))
    })?;
    let signalled = signals.pass_on_to(child.id())?;
    let pumps = match terminal {
        Some(terminal) => pumps(&mut child, &terminal)?,
        None => Vec::new(),
    };
    let mut live = Live::new(job.events.path());
    let status = attend(child, &mut live, &mut teller)?;
    let unwritten = pumps
        .into_iter()
        .filter_map(|pump| pump.join().ok()?.err())
        .next();
    let signal = signalled.load(SeqCst);
    let status = conclude(status, &mut live, &mut teller, signal, job);
    let status = match (unwritten, status) {
        (Some(error), 0) => {
            tell(format_args!(
                "what the program has printed could not be written ({error}), and the rest of it \
                 is lost; make room there"
            ));
            UNWRITTEN
        }
        _ => status,
    };
    record.end(status, signal);
    Ok(ExitCode::from(status))
}

/// Threads that pass the job's output to the terminal.
fn pumps(child: &mut Child, terminal: &Terminal) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let start =
        |pump: Box<dyn FnOnce() -> io::Result<()> + Send>| std::thread::Builder::new().spawn(pump);
    let mut pumps = Vec::new();
    if let Some(from) = child.stdout.take() {
        let terminal = terminal.clone();
        pumps.push(start(Box::new(move || {
            pump(from, io::stdout(), &terminal)
        }))?);
    }
    if let Some(from) = child.stderr.take() {
        let terminal = terminal.clone();
        pumps.push(start(Box::new(move || {
            pump(from, io::stderr(), &terminal)
        }))?);
    }
    Ok(pumps)
}

/// What cannot be written is thrown away, so that the job goes on; that is an error unless nobody
/// reads it.
fn pump(mut from: impl Read, mut to: impl Write, terminal: &Terminal) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let mut written = Ok(());
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) if written.is_ok() => written = terminal.write(&mut to, &buffer[..read]),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written.or_else(|error| {
        if is_unwanted(&error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Waits for the launcher's end.
fn attend(mut child: Child, live: &mut Live, teller: &mut Teller) -> Result<ExitStatus, Failure> {
    let (sender, ended) = bounded(1);
    std::thread::Builder::new().spawn(move || sender.send(child.wait()))?;
    let ticks = tick(PERIOD);
    loop {
        select! {
            recv(ended) -> status => match status {
                Ok(status) => return Ok(status?),
                Err(_) => return Err(cannot("nobody waits for mpirun any more")),
            },
            // Without event files the job goes on all the same.
            recv(ticks) -> _ => if let Ok(Some(standing)) = live.poll() {
                teller.tell(standing);
            },
        }
    }
}

/// Says what came of the job. Returns the exit status.
fn conclude(
    status: ExitStatus,
    live: &mut Live,
    teller: &mut Teller,
    signal: i32,
    job: &Job,
) -> u8 {
    let standing = live.poll().ok().flatten();
    let launcher = match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    };
    // What is not written tells nothing.
    let is_silent = has_torn_headers(job.events.path()) || !has_room(job.events.path());
    let mut verdict = verdict(standing, launcher, is_silent);
    // A job that was ended by a signal has no result; one that has come to its end meanwhile has.
    let was_ended = signal != 0 && (verdict.status != 0 || standing.is_none());
    if was_ended {
        verdict = Verdict {
            status: 128 + signal as u8,
            remark: Some(last_will(signal, job.disk.as_deref())),
        };
    }
    teller.end(standing, verdict.status);
    if let Some(standing) = standing
        && standing.workers != job.workers
    {
        tell(format_args!(
            "the program had {} instead of {}",
            count(standing.workers, "rank", "ranks"),
            job.workers
        ));
    }
    if let Some(remark) = &verdict.remark {
        tell(remark);
    }
    if let Some(Protection::Refused(why)) = standing.map(|standing| &standing.protection) {
        log::info!("unprotected: {why}");
    }
    for problem in live.problems() {
        log::warn!("{problem}");
    }
    verdict.status
}

/// What ended the job, and how it can go on.
fn last_will(signal: i32, disk: Option<&Path>) -> String {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    let next = match disk {
        Some(disk) => format!(
            "the same command with --restart goes on from the last epoch in {}",
            disk.display()
        ),
        None => "no epoch is on disk (--disk DIR keeps some there), so it can only start from the \
            beginning"
            .to_owned(),
    };
    format!("{name} has ended the job; {next}")
}

/// Whether a file there can have a few bytes.
fn has_room(directory: &Path) -> bool {
    let file = tempfile::tempfile_in(directory);
    file.and_then(|mut file| file.write_all(&[0; 4096])).is_ok()
}

/// Whether an event file there has not even its header.
fn has_torn_headers(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_events = |entry: &DirEntry| {
        entry
            .file_name()
            .to_str()
            .and_then(rank_of_file_name)
            .is_some()
    };
    let length = |entry: DirEntry| entry.metadata().map_or(0, |about| about.len());
    entries
        .filter(is_events)
        .map(length)
        .any(|length| length < HEADER_LEN as u64)
}

/// The account of the run that is kept with event files that the user wants.
struct Record(Option<(PathBuf, RunRecord)>);

impl Record {
    fn begin(events: &Events) -> Self {
        let Events::Named(directory) = events else {
            return Self(None);
        };
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
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
        // The job does not depend on it.
        if let Some((directory, run)) = &self.0
            && let Err(error) = run.write(directory)
        {
            log::info!("{}: {error}", directory.display());
        }
    }
}
