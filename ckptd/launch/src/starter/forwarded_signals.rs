//! Signals to the starter of a job, which are forwarded to the job.
//!
//! The starter forwards every signal of [`FORWARDED`]. Guardians of this node are in the starter's
//! process group and receive a signal of the terminal directly, too, so they may forward the signal
//! twice. `understudy run` forwards signals to mpirun by another rule, because mpirun ends at once
//! when it receives a second signal.

use crate::Error;
use crate::spawn_thread::spawn_thread;
use crate::tied_child::pidfd_of;
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::iterator::Signals;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;

/// Signals to a launcher that are forwarded to its job.
pub const FORWARDED: [i32; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Guardians that were started, by pidfd.
///
/// After the end of a guardian another process may have its number.
#[derive(Clone)]
pub(super) struct StartedGuardians(Arc<[OwnedFd]>);

impl StartedGuardians {
    /// # Errors
    /// Errors of pidfd_open(2).
    pub fn new(guardians: &[Child]) -> Result<StartedGuardians, Error> {
        let pidfds: Result<_, _> = guardians.iter().map(pidfd_of).collect();
        pidfds
            .map(StartedGuardians)
            .map_err(Error::system("a guardian"))
    }

    pub fn signal(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else {
            return;
        };
        for pidfd in self.0.iter() {
            // The guardian may have ended; the exit status of each is collected at the end.
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

/// Signals to this process, which wait until the guardians have been started.
pub(super) struct CaughtSignals(Signals);

impl CaughtSignals {
    /// # Errors
    /// Errors of sigaction(2).
    pub fn catch() -> Result<CaughtSignals, Error> {
        let signals = Signals::new(FORWARDED).map_err(Error::system("a signal handler"))?;
        Ok(CaughtSignals(signals))
    }

    /// Passes all signals, earlier ones included, to `notify` and then to the guardians.
    ///
    /// # Errors
    /// Errors of starting a thread.
    pub fn pass_on_to(
        mut self,
        guardians: StartedGuardians,
        mut notify: impl FnMut(i32) + Send + 'static,
    ) -> Result<(), Error> {
        spawn_thread(move || {
            for number in self.0.forever() {
                notify(number);
                guardians.signal(number);
            }
        })
        .map_err(Error::system("a thread"))
    }
}
