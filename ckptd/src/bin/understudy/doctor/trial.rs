//! A protected job of one process, which only initialises and finalises MPI.
//!
//! Only this check shows that the runtime can be loaded beside this C library, and the MPI library
//! into its namespace.
#![allow(unsafe_code)]

use super::{Arguments, Check, mpi_version, probe};
use crate::outcome::{Failure, Outcome, verdict};
use crate::{mpi, product_files};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use understudy_launch::preload_library;
use understudy_launch::starter::BatchSystem;
use understudy_pmi::{MpiKind, MpiLibrary};
use understudy_report::Live;
use understudy_settings::FILES_READ;

const NAME: &str = "protected job";
/// Time after which the job counts as hanging.
const JOB_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval in which the job is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Directories that the dynamic loader searches by default.
const SYSTEM_DIRECTORIES: [&str; 4] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
];

/// Runs the job, and judges its result.
///
/// # Errors
/// Fails if the job cannot be started, or its event files cannot be read.
pub fn run(arguments: &Arguments) -> Result<Check, Failure> {
    let Some(mpi) = installed_library(arguments.mpirun.as_deref()) else {
        return Ok(Check::warning(
            NAME,
            "not tried: no MPI library is found without a program",
            "name a program, as in: understudy doctor -- ./solver",
        ));
    };
    let events = probe::event_directory()?;
    let messages = events.path().join("messages");
    let mut child = command(arguments, &mpi, events.path())?
        .stdout(Stdio::null())
        .stderr(File::create(&messages)?)
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            None if began.elapsed() < JOB_TIMEOUT => std::thread::sleep(POLL_INTERVAL),
            None => {
                probe::end(&mut child)?;
                break None;
            }
            status => break status,
        }
    };
    let state = Live::new(events.path()).poll()?.cloned();
    let has_checkpoint = state.is_some_and(|state| state.checkpoint.is_some());
    let check = judge(status, &std::fs::read(&messages)?, has_checkpoint);
    let finding = format!(
        "{} (with {})",
        check.finding,
        mpi_version::describe(&mpi.library)
    );
    Ok(Check { finding, ..check })
}

/// Judges a job by its exit status and its messages.
///
/// `status` is `None` if the job did not end.
fn judge(status: Option<ExitStatus>, messages: &[u8], has_checkpoint: bool) -> Check {
    if status.is_some_and(|status| status.success()) && has_checkpoint {
        return Check::ok(NAME, "one process has run under protection to its end");
    }
    let ended = match status {
        Some(status) => status.to_string(),
        None => format!("it did not end within {} s", JOB_TIMEOUT.as_secs()),
    };
    let text = String::from_utf8_lossy(messages);
    let message_line = text.lines().find(|line| line.starts_with("understudy"));
    let why = message_line
        .or(text.lines().next())
        .unwrap_or("without a message");
    Check::failure(
        NAME,
        format!("one process could not run protected ({ended}): {why}"),
        "as the message says; `understudy run -n 1 -- PROGRAM` shows the same with a program of \
         yours",
    )
}

fn command(arguments: &Arguments, mpi: &MpiLibrary, events: &Path) -> std::io::Result<Command> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(&own);
    // Settings have their own check.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"UNDERSTUDY_") {
            command.env_remove(name);
        }
    }
    command
        .args(["run", "-n", "1", "--spares", "0", "--progress", "none"])
        .arg("--events")
        .arg(events);
    BatchSystem::hide_from(&mut command);
    // The program opens its MPI library late, so the preload library for it must be named.
    let library =
        product_files::library(arguments.library.as_deref()).map_err(std::io::Error::other)?;
    command
        .arg("--library")
        .arg(library.with_file_name(preload_library(mpi.kind)))
        .arg("--")
        .arg(&own)
        .args(["doctor", "--initialise-mpi"])
        .arg(mpi.library.file_name().unwrap_or_default())
        .env("UNDERSTUDY_LATE", "1")
        .env(FILES_READ, "1")
        .stdin(Stdio::null());
    if let Some(directory) = mpi.library.parent() {
        let directory = directory.to_owned();
        let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let all = std::iter::once(directory).chain(std::env::split_paths(&rest));
        if let Ok(path) = std::env::join_paths(all) {
            command.env("LD_LIBRARY_PATH", path);
        }
    }
    Ok(command)
}

/// Finds the MPI library beside the launcher, or else that of the dynamic loader.
fn installed_library(launcher: Option<&str>) -> Option<MpiLibrary> {
    let words = shell_words::split(launcher.unwrap_or("mpirun")).ok()?;
    let launcher = words.first().and_then(|name| mpi::launcher(name.as_ref()));
    let launcher = launcher.map(|path| path.canonicalize().unwrap_or(path));
    let prefix = launcher.as_ref().and_then(|path| path.parent()?.parent());
    let beside = prefix
        .into_iter()
        .flat_map(|prefix| ["lib", "lib64", "lib/x86_64-linux-gnu"].map(|name| prefix.join(name)));
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<_> = std::env::split_paths(&listed).collect();
    let system = SYSTEM_DIRECTORIES.map(PathBuf::from);
    beside
        .chain(listed)
        .chain(system)
        .find_map(|directory| library_in(&directory))
}

fn library_in(directory: &Path) -> Option<MpiLibrary> {
    let files = MpiKind::sonames().map(|name| directory.join(name));
    files
        .filter(|file| file.exists())
        .find_map(|file| MpiLibrary::named(&file).ok())
}

/// Initialises and finalises MPI: the program of the job.
///
/// # Errors
/// Fails if the MPI library cannot be opened, or lacks one of the two procedures.
pub fn initialise_mpi(library: &Path) -> Outcome {
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void) -> c_int;
    type Finalize = unsafe extern "C" fn() -> c_int;
    // SAFETY: the MPI standard gives the procedures these types (MPI 4.1, 11.2.1 and 11.2.2) and
    // lets MPI_Init take null pointers; the library is never closed.
    let is_done = unsafe {
        let library = Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL)?;
        let init = *library.get::<Init>(b"MPI_Init\0")?;
        let finalize = *library.get::<Finalize>(b"MPI_Finalize\0")?;
        std::mem::forget(library);
        init(std::ptr::null_mut(), std::ptr::null_mut()) == 0 && finalize() == 0
    };
    Ok(verdict(is_done))
}
