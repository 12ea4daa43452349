//! Settings of static data and trial replays.

use crate::{headroom, process_info};
use understudy_numbers::Worker;
use understudy_settings::{JournalLimit, Scheme, StaticData, TrialReplay};

/// Minimum limit of a journal, in bytes.
///
/// The limit may be a share of the program's present memory, and the program may allocate more
/// until the end of the phase.
const MIN_JOURNAL_LIMIT: usize = 16 << 20;

/// Number of workers of which one runs a trial replay, as a sample.
const WORKERS_PER_TRIAL: u32 = 4;

/// True if static data are rebuilt by a replay, if possible.
pub fn replays() -> bool {
    let config = process_info::config();
    match config.static_data {
        StaticData::Replay => true,
        StaticData::Auto => !matches!(config.scheme, Some(Scheme::Parity(_))),
        StaticData::Image | StaticData::Disk => false,
    }
}

/// True if the program's memory is compared with that of replays.
///
/// Then only the program may change this memory.
pub fn compares() -> bool {
    replays() || process_info::config().trial_replay != TrialReplay::Off
}

/// True if replicas omit static data.
pub fn omits_static_data() -> bool {
    replays() || process_info::config().static_data == StaticData::Disk
}

/// True if trial replays are run.
pub fn runs_trials() -> bool {
    process_info::config().trial_replay != TrialReplay::Off || omits_static_data()
}

/// True if the phase of this worker is replayed in a trial.
///
/// The trial proves nothing for other workers.
pub fn is_in_trial(worker: Worker) -> bool {
    process_info::config().trial_replay != TrialReplay::Sample
        || worker.0.is_multiple_of(WORKERS_PER_TRIAL)
}

/// True if a worker's own replica omits static data.
///
/// The disk level writes checkpoints from the own replica, and these must contain all pages. With a
/// disk level, the own replica can therefore omit static data only if these are in a file on disk.
pub fn omits_own_static_data() -> bool {
    process_info::config().static_data == StaticData::Disk
        || (replays() && process_info::config().disk.is_none())
}

/// Returns the longest journal that may be recorded, in bytes.
pub fn journal_limit_bytes() -> usize {
    match process_info::config().journal_limit {
        JournalLimit::Bytes(bytes) => bytes,
        share => {
            let [anonymous, _] = headroom::resident_memory();
            share.of(anonymous as usize).max(MIN_JOURNAL_LIMIT)
        }
    }
}
