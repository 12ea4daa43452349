//! Forwarding of signals from this program to mpirun.
//!
//! mpirun is in the process group of this program, so a signal from the terminal reaches it
//! directly. mpirun takes a second signal for a request to end at once; therefore only signals that
//! a process has sent are forwarded. understudy's own starter forwards all signals
//! (`forwarded_signals` in `understudy_launch`), because its guardians treat a second signal like
//! the first.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use understudy_launch::starter::FORWARDED;

/// Caught signals, which a thread forwards.
pub struct Signals {
    signals: SignalsInfo<WithOrigin>,
    last: Arc<AtomicI32>,
}

impl Signals {
    /// Catches signals, which stay pending until [`Signals::pass_on_to`] forwards them.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            signals: SignalsInfo::new(FORWARDED)?,
            last: Arc::default(),
        })
    }

    /// Forwards signals to a process, in a thread that ends with this program.
    ///
    /// Returns a cell with the last signal that may end a job, or 0.
    pub fn pass_on_to(mut self, child: u32) -> io::Result<Arc<AtomicI32>> {
        let last = Arc::clone(&self.last);
        std::thread::Builder::new().spawn(move || {
            for origin in &mut self.signals {
                if may_end_a_job(origin.signal) {
                    self.last.store(origin.signal, SeqCst);
                }
                // A signal from the terminal has already reached the launcher.
                // The launcher would take a second one for a request to end at once.
                if origin.process.is_some() {
                    send_signal(child, origin.signal);
                }
            }
        })?;
        Ok(last)
    }
}

/// Returns true for signals other than SIGUSR1 and SIGUSR2.
pub fn may_end_a_job(signal: i32) -> bool {
    ![SIGUSR1, SIGUSR2].contains(&signal)
}

/// Sends a signal to the child.
fn send_signal(child: u32, signal: i32) {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // An error means that the child has exited in the meantime.
        let _ = kill_process(pid, signal);
    }
}
