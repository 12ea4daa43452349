//! Settings of static data and trial replays.

use crate::{headroom, told};
use understudy_numbers::Worker;
use understudy_settings::{LogLimit, Rehearse, Static};

/// Minimum limit of a journal, in bytes.
///
/// The program may allocate more memory until the end of the phase.
const LEAST_ROOM: usize = 16 << 20;

/// Number of workers of which one runs a trial replay, as a sample.
const SAMPLE: u32 = 4;

/// True if static data are rebuilt by a replay, if possible.
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
/// Then only the program may change this memory.
pub fn compares() -> bool {
    replays() || told::config().rehearse != Rehearse::Off
}

/// True if replicas omit static data.
pub fn is_used() -> bool {
    replays() || told::config().static_data == Static::Disk
}

/// True if trial replays are run.
pub fn is_on() -> bool {
    told::config().rehearse != Rehearse::Off || is_used()
}

/// True if the phase of this worker is replayed in a trial.
///
/// The trial proves nothing for other workers.
pub fn is_rehearsed(worker: Worker) -> bool {
    told::config().rehearse != Rehearse::Sample || worker.0.is_multiple_of(SAMPLE)
}

/// True if a worker's own replica omits static data.
///
/// An epoch on disk is complete in itself. With a disk level, replicas can omit static data only if
/// these are also on disk.
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
