//! Signals to this program are meant for the job.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// What is passed on.
const PASSED: [i32; 5] = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];

/// Signals that have come, and are passed on from now on.
pub struct Signals {
    signals: SignalsInfo<WithOrigin>,
    last: Arc<AtomicI32>,
}

impl Signals {
    /// Catches signals; they wait until there is somebody to whom they can be passed on.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            signals: SignalsInfo::new(PASSED)?,
            last: Arc::default(),
        })
    }

    /// Passes signals on to a process, in a thread that ends with this program. What is returned
    /// has the last one that may end a job, or 0.
    pub fn pass_on_to(mut self, child: u32) -> io::Result<Arc<AtomicI32>> {
        let last = Arc::clone(&self.last);
        std::thread::Builder::new().spawn(move || {
            for origin in &mut self.signals {
                if may_end_a_job(origin.signal) {
                    self.last.store(origin.signal, SeqCst);
                }
                // A key of the terminal has reached the launcher already: a second time it would
                // mean "at once".
                if origin.process.is_some() {
                    pass(child, origin.signal);
                }
            }
        })?;
        Ok(last)
    }
}

/// True for signals other than those of the user.
pub fn may_end_a_job(signal: i32) -> bool {
    ![SIGUSR1, SIGUSR2].contains(&signal)
}

fn pass(child: u32, signal: i32) {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, signal);
    }
}
