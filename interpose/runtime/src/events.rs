//! The rank's event file and its clock.

use crate::cell::Main;
use ckptd::events::{Epoch, EventWriter, Kind, WorldRank};
use std::path::Path;
use std::time::Instant;

static WRITER: Main<Option<EventWriter>> = Main::new(None);
static EPOCH: Main<u64> = Main::new(0);

/// Opens the event file of the process with this rank in the launcher's world.
pub fn open(directory: &Path, rank: u32) {
    WRITER.set(Some(EventWriter::create(directory, WorldRank(rank))));
}

/// Whether there is an event file.
pub fn are_kept() -> bool {
    WRITER.borrow().as_ref().is_some_and(EventWriter::is_on)
}

/// The epoch that later events belong to.
pub fn set_epoch(epoch: u64) {
    EPOCH.set(epoch);
}

/// Records an event of this moment.
pub fn emit(kind: Kind) {
    if let Some(writer) = &mut *WRITER.borrow_mut() {
        writer.emit(Epoch(*EPOCH.borrow()), kind);
    }
}

/// Records an event of an earlier moment, given by `clock`.
pub fn emit_at(moment: u64, kind: Kind) {
    if let Some(writer) = &mut *WRITER.borrow_mut() {
        writer.emit_at(moment, Epoch(*EPOCH.borrow()), kind);
    }
}

/// The moment, for `emit_at`.
pub fn clock() -> u64 {
    ckptd::events::monotonic_ns()
}

/// Nanoseconds since `start`.
pub fn nanoseconds(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
