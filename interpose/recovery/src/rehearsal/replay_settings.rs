//! Settings of static data and rehearsals.

use crate::{headroom, told};
use understudy_numbers::Worker;
use understudy_settings::{LogLimit, Rehearse, Static};

/// Least room for a journal: part of the memory may not be set up yet while the phase runs.
const LEAST_ROOM: usize = 16 << 20;

/// Number of workers of which one is rehearsed, which stands for the others.
const SAMPLE: u32 = 4;

/// True if static data are rebuilt by a replay, where that is possible.
pub fn replays() -> bool {
    let config = told::config();
    match config.static_data {
        Static::Replay => true,
        Static::Auto => config.scheme.is_whole_copies(),
        Static::Image | Static::Disk => false,
    }
}

/// True if the program's memory is compared with that of replays.
///
/// Nothing but the program may change it then.
pub fn compares() -> bool {
    replays() || told::config().rehearse != Rehearse::Off
}

/// True if replicas do without static data.
pub fn is_used() -> bool {
    replays() || told::config().static_data == Static::Disk
}

/// True if phases are rehearsed.
pub fn is_on() -> bool {
    told::config().rehearse != Rehearse::Off || is_used()
}

/// True if this worker's phase is rehearsed.
///
/// Nothing is proved of other workers by that.
pub fn is_rehearsed(worker: Worker) -> bool {
    told::config().rehearse != Rehearse::Sample || worker.0.is_multiple_of(SAMPLE)
}

/// True if a worker does without replicas of its own static data.
///
/// An epoch on disk is complete in itself: with a disk level that is only possible if static data
/// are on disk, too.
pub fn spares_own() -> bool {
    told::config().static_data == Static::Disk || (replays() && told::config().disk.is_none())
}

/// Returns the longest journal that may be recorded, in bytes.
pub fn room() -> usize {
    match told::config().log_limit {
        LogLimit::Bytes(bytes) => bytes,
        part => {
            let [anonymous, _] = headroom::resident_memory();
            part.of(anonymous as usize).max(LEAST_ROOM)
        }
    }
}
