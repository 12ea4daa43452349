//! A protected job of one process, which initialises and finalises MPI and does nothing else.
//!
//! No other check shows that the runtime can be loaded beside this C library, and the MPI library
//! into its namespace.
#![allow(unsafe_code)]

use super::{Arguments, Check, probe};
use crate::mpi;
use crate::outcome::{Failure, Outcome, verdict};
use ckptd::report::Live;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "protected job";
/// Time after which the job is taken to hang.
const LIMIT: Duration = Duration::from_secs(60);
/// Interval in which the job is polled.
const PERIOD: Duration = Duration::from_millis(20);
/// Soname of Open MPI's library.
const LIBRARY: &str = "libmpi.so.40";

/// Runs the job.
///
/// # Errors
/// The job cannot be started, or its event files cannot be read.
pub fn run(arguments: &Arguments) -> Result<Check, Failure> {
    let events = probe::event_directory()?;
    let messages = events.path().join("messages");
    let mut child = command(arguments, events.path())?
        .stdout(Stdio::null())
        .stderr(File::create(&messages)?)
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            None if began.elapsed() < LIMIT => std::thread::sleep(PERIOD),
            None => {
                probe::end(&mut child)?;
                break None;
            }
            status => break status,
        }
    };
    let standing = Live::new(events.path()).poll()?.cloned();
    let has_checkpoint = standing.is_some_and(|standing| standing.checkpoint.is_some());
    Ok(judge(status, &std::fs::read(&messages)?, has_checkpoint))
}

/// Judges a job by its end and its messages.
///
/// `status` is `None` if the job did not end.
fn judge(status: Option<ExitStatus>, messages: &[u8], has_checkpoint: bool) -> Check {
    if status.is_some_and(|status| status.success()) && has_checkpoint {
        return Check::ok(NAME, "one process has run under protection to its end");
    }
    let ended = match status {
        Some(status) => status.to_string(),
        None => format!("it did not end within {} s", LIMIT.as_secs()),
    };
    let text = String::from_utf8_lossy(messages);
    let said = text.lines().find(|line| line.starts_with("understudy"));
    let why = said.or(text.lines().next()).unwrap_or("without a message");
    Check::failure(
        NAME,
        format!("one process could not run protected ({ended}): {why}"),
        "as the message says; `understudy run -n 1 -- PROGRAM` shows the same with a program of \
         yours",
    )
}

fn command(arguments: &Arguments, events: &Path) -> std::io::Result<Command> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(&own);
    // Settings have a check of their own.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"UNDERSTUDY_") {
            command.env_remove(name);
        }
    }
    command
        .args(["run", "-n", "1", "--spares", "0", "--progress", "none"])
        .arg("--log-dir")
        .arg(events);
    if let Some(library) = &arguments.library {
        command.arg("--library").arg(library);
    }
    command
        .arg("--")
        .arg(&own)
        .args(["doctor", "--initialise-mpi"])
        .env("UNDERSTUDY_LATE", "1")
        .stdin(Stdio::null());
    if let Some(directory) = library_directory(&arguments.mpirun) {
        let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let all = std::iter::once(directory).chain(std::env::split_paths(&rest));
        if let Ok(path) = std::env::join_paths(all) {
            command.env("LD_LIBRARY_PATH", path);
        }
    }
    Ok(command)
}

/// Returns the directory of the launcher's MPI library, if that lies beside the launcher's.
fn library_directory(launcher: &str) -> Option<PathBuf> {
    let words = shell_words::split(launcher).ok()?;
    let path = mpi::launcher(words.first()?)?;
    let prefix = path.parent()?.parent()?;
    ["lib", "lib64"]
        .map(|name| prefix.join(name))
        .into_iter()
        .find(|directory| directory.join(LIBRARY).exists())
}

/// Initialises and finalises MPI: the program of the job.
///
/// # Errors
/// The MPI library cannot be opened.
pub fn initialise_mpi() -> Outcome {
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void) -> c_int;
    type Finalize = unsafe extern "C" fn() -> c_int;
    // SAFETY: the procedures have these types (MPI 4.1, 11.2.1 and 11.2.2); MPI_Init takes null
    // pointers.
    let is_done = unsafe {
        let library = Library::open(Some(LIBRARY), RTLD_NOW | RTLD_GLOBAL)?;
        let init = *library.get::<Init>(b"MPI_Init\0")?;
        let finalize = *library.get::<Finalize>(b"MPI_Finalize\0")?;
        std::mem::forget(library);
        init(std::ptr::null_mut(), std::ptr::null_mut()) == 0 && finalize() == 0
    };
    Ok(verdict(is_done))
}
