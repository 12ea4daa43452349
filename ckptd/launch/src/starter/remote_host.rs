//! `ckptd node`: the part of a job's starter on another host.
//!
//! The starter sends the assignment by standard input, and receives the output.

use super::forwarded_signals::{CaughtSignals, StartedGuardians};
use super::host_message::{Assignment, StarterToHost, build_of};
use crate::Error;
use crate::job_directory::{directory_of, remove_left};
use crate::manager_process::start_with_duty;
use crate::messages::Messages;
use crate::process_context::{ProcessContext, own_program};
use crate::spawn_thread::spawn_thread;
use crate::streams::Streams;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};
use understudy_formats::private_directories::{RUNTIME_DIR, name_runtime_directory};

/// Executes the assignment from standard input until the guardians have ended.
///
/// # Errors
/// Fails if a file is missing on this host, or if a system call fails.
pub fn run_on_host() -> Result<i32, Error> {
    let failed = || Error::system("the message of the starter");
    let input = rustix::stdio::stdin()
        .try_clone_to_owned()
        .map_err(failed())?;
    let mut messages = Messages::new(File::from(input));
    let assignment: Assignment = messages.next().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Error::Build,
        _ => failed()(error),
    })?;
    let ckptd = own_program()?;
    if assignment.build != build_of(&ckptd)? {
        return Err(Error::Build);
    }
    let directory = OsStr::from_bytes(&assignment.directory);
    let what = format!("the working directory {}", directory.to_string_lossy());
    std::env::set_current_dir(directory).map_err(Error::system(what))?;
    let (share, environment) = (assignment.share, assignment.environment);
    if let Some(directory_in_memory) = environment.value(RUNTIME_DIR) {
        name_runtime_directory(directory_in_memory);
    }
    share.check()?;
    let context = ProcessContext {
        ckptd: &ckptd,
        environment: &environment,
        streams: &Streams::own()?,
    };
    let signals = CaughtSignals::catch()?;
    // The manager detects the end of this process by the end of its standard input.
    let manager = start_with_duty(&share.job, &assignment.duty, Some(context))?;
    let mut guardians = share.start(context, Stdio::piped)?;
    let input = guardians.first_mut().and_then(|first| first.stdin.take());
    let started = StartedGuardians::new(&guardians)?;
    signals.pass_on_to(started.clone(), |_| {})?;
    spawn_thread(move || listen(messages, &started, input)).map_err(Error::system("a thread"))?;
    for child in &mut guardians {
        child.wait().map_err(Error::system("a guardian"))?;
    }
    wait_for(manager, &share.job);
    Ok(0)
}

/// Waits for the manager, and removes the job's leftovers if the manager has failed.
fn wait_for(mut manager: Child, job: &str) {
    let input = manager.stdin.take();
    if !manager.wait().is_ok_and(|status| status.success()) {
        remove_left(&directory_of(job));
    }
    drop(input);
}

/// Handles messages of the starter until the starter ends, and kills the guardians.
///
/// The manager ends without guardians, and this process then removes what a killed manager has
/// left.
fn listen(
    mut messages: Messages<File>,
    guardians: &StartedGuardians,
    mut input: Option<impl Write>,
) {
    while let Ok(message) = messages.next() {
        match message {
            StarterToHost::Signal(number) => guardians.signal(number),
            StarterToHost::Input(bytes) if bytes.is_empty() => input = None,
            StarterToHost::Input(bytes) => {
                if input
                    .as_mut()
                    .is_some_and(|input| input.write_all(&bytes).is_err())
                {
                    // The program has closed its standard input.
                    input = None;
                }
            }
        }
    }
    guardians.signal(libc::SIGKILL);
}
