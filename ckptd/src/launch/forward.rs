//! Signals to what has started a job are those of the job.

use super::Error;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals;
use std::process::Child;

/// Signals that are passed on.
const FORWARDED: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

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
