//! The rank's event file and its clock.
//!
//! An event is dropped if it occurs while another event is being recorded (by another thread, or by
//! the same thread in a signal handler): waiting for the writer could block the job.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use understudy_formats::events::{Epoch, EventWriter, Kind, ProcessNumber};

static WRITER: Mutex<Option<EventWriter>> = Mutex::new(None);
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Opens the event file of the process with this rank in the launcher's world.
pub fn open(directory: &Path, rank: ProcessNumber) {
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(EventWriter::create(directory, rank));
}

/// True if an event file is open.
pub fn is_recording() -> bool {
    let writer = WRITER.try_lock().ok();
    writer.is_some_and(|writer| writer.as_ref().is_some_and(EventWriter::is_on))
}

/// Sets the epoch that is recorded with later events.
pub fn set_epoch(epoch: Epoch) {
    EPOCH.store(epoch.0, Ordering::Relaxed);
}

/// Records an event with the current time.
pub fn emit(kind: Kind) {
    record(|writer, epoch| writer.emit(epoch, kind));
}

/// Records an event with an earlier time, a result of [`clock`].
pub fn emit_at(monotonic_ns: u64, kind: Kind) {
    record(|writer, epoch| writer.emit_at(monotonic_ns, epoch, kind));
}

fn record(event: impl FnOnce(&mut EventWriter, Epoch)) {
    if let Ok(mut writer) = WRITER.try_lock()
        && let Some(writer) = &mut *writer
    {
        event(writer, Epoch(EPOCH.load(Ordering::Relaxed)));
    }
}

/// Returns the current time for [`emit_at`], in nanoseconds of `CLOCK_MONOTONIC`.
pub fn clock() -> u64 {
    understudy_formats::events::monotonic_ns()
}

/// Returns the nanoseconds since `start`.
pub fn nanoseconds(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
