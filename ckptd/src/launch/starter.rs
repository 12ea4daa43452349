//! Starts the guardians of a job, as mpirun would: on this node, or on [`several`].

use super::hosts::{By, Host};
use super::place::OWN;
use super::share::Share;
use super::{Error, several};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// Signals that are passed on.
const FORWARDED: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// What a job is made of.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program, with its arguments.
    pub program: Vec<OsString>,
    /// The layer's library.
    pub preload: OsString,
    /// The MPI library of a program that opens it late, by its name.
    pub mpi: Option<PathBuf>,
    /// Where it runs; nowhere but here, if there are none.
    pub hosts: Vec<Host>,
    pub by: By,
    /// What starts a command on another host: words, before that and the command.
    pub agent: Vec<String>,
}

/// Runs a job to its end; its exit status.
///
/// # Errors
/// Those of starting a process.
pub fn run(plan: &Plan) -> Result<i32, Error> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let job = format!("{OWN}{host}-{}@1", std::process::id());
    let share = Share::of(plan, job)?;
    if !plan.hosts.is_empty() {
        return several::run(plan, &share, &host);
    }
    let guardians = share.start(None, Stdio::inherit)?;
    pass_signals_on(&guardians, |_| {})?;
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // Who was killed is missed by nobody, if others bring the job to its end.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}

/// From now on these guardians, and whoever else is told, get the signals that this process gets.
///
/// # Errors
/// Those of sigaction(2).
pub(super) fn pass_signals_on(guardians: &[Child], mut tell: impl FnMut(i32) + Send + 'static) -> Result<(), Error> {
    let mut signals = Signals::new(FORWARDED).map_err(Error::system("a signal handler"))?;
    let pids: Vec<Pid> = guardians
        .iter()
        .filter_map(|child| Pid::from_raw(child.id() as i32))
        .collect();
    std::thread::spawn(move || {
        for number in signals.forever() {
            tell(number);
            for (&pid, signal) in pids.iter().zip(std::iter::repeat(Signal::from_named_raw(number))) {
                // It may have ended; all are waited for at the end.
                let _ = signal.map(|signal| kill_process(pid, signal));
            }
        }
    });
    Ok(())
}
