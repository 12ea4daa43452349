//! All leftovers of a node.

use crate::dead_jobs::files_of_dead_jobs;
use crate::event_directories::abandoned_event_directories;
use crate::leftover::Leftover;
use crate::open_mpi_segments::abandoned_segments;

/// Returns the leftovers of all kinds.
pub fn leftovers_of_node() -> Vec<Leftover> {
    let kinds = [
        files_of_dead_jobs(),
        abandoned_segments(),
        abandoned_event_directories(),
    ];
    kinds
        .into_iter()
        .flatten()
        .flat_map(Leftover::all)
        .collect()
}
