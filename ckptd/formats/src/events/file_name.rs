//! Names of event files.

use understudy_numbers::ProcessNumber;

/// Returns the name of the event file of a rank.
pub fn file_name(rank: ProcessNumber) -> String {
    format!("rank-{}.events", rank.0)
}

/// Returns the rank in the name of an event file; `None` for another file.
pub fn rank_of_file_name(name: &str) -> Option<ProcessNumber> {
    name.strip_prefix("rank-")?
        .strip_suffix(".events")?
        .parse()
        .ok()
        .map(ProcessNumber)
}
