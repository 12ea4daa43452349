//! Signals that the launcher has sent to all ranks.
//!
//! Processes that start later, or that are rolled back to an earlier time, receive them again.

use rustix::io::{pread, pwrite};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use understudy_formats::events::realtime_ns;
use understudy_wire::line::{REPEATED_SIGNALS, SharedPage};

/// Time at which each of [`REPEATED_SIGNALS`] was sent last, as in a [`SharedPage`].
#[derive(Debug, Default)]
pub struct PassedSignals([AtomicU64; REPEATED_SIGNALS.len()]);

impl PassedSignals {
    /// Records that a signal of [`REPEATED_SIGNALS`] is being sent; ignores other signals.
    pub fn note(&self, signal: i32) {
        if let Some(time) = self.time_of(signal) {
            time.store(realtime_ns(), Ordering::Relaxed);
        }
    }

    /// True if the signal is one of [`REPEATED_SIGNALS`] and was sent.
    pub fn contains(&self, signal: i32) -> bool {
        self.time_of(signal)
            .is_some_and(|time| time.load(Ordering::Relaxed) != 0)
    }

    fn time_of(&self, signal: i32) -> Option<&AtomicU64> {
        let index = REPEATED_SIGNALS
            .iter()
            .position(|&repeated| repeated == signal)?;
        Some(&self.0[index])
    }

    /// Writes the times to a process's page; must precede the signal itself.
    ///
    /// # Errors
    /// Errors of pwrite(2).
    pub fn write_to(&self, page: impl AsFd) -> io::Result<()> {
        let times = self
            .0
            .each_ref()
            .map(|time| time.load(Ordering::Relaxed).to_ne_bytes());
        pwrite(
            page,
            times.as_flattened(),
            offset_of!(SharedPage, signal_times) as u64,
        )?;
        Ok(())
    }
}

/// True if the process of this page has resumed the program.
pub fn has_run(page: impl AsFd) -> bool {
    is_set(page, offset_of!(SharedPage, has_run))
}

/// True if all workers of this page's job are in `MPI_Finalize`.
pub fn has_ended(page: impl AsFd) -> bool {
    is_set(page, offset_of!(SharedPage, has_ended))
}

fn is_set(page: impl AsFd, offset: usize) -> bool {
    let mut word = [0; size_of::<u32>()];
    let read = pread(page, &mut word, offset as u64);
    read.is_ok() && word != [0; size_of::<u32>()]
}
