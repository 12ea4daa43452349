//! Memory that workers share by other means than MPI.

use crate::protection;
use crate::user::{self, SharedMapping};
use crate::world;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_numbers::Worker;
use understudy_policy::cut_agreement::ProtectionLoss;

/// Compares the mappings of all workers, none of which has more than `most`; collective.
///
/// `own` are this worker's mappings. If two workers have a common mapping, the first of these
/// workers reports the mapping to the user. All workers return this first worker.
pub fn first_sharer(rt: &Runtime, own: &[SharedMapping], most: u64) -> mpi::Result<Option<Worker>> {
    let most = most as usize;
    let mut mine: Vec<u64> = own.iter().map(|mapping| mapping.identity).collect();
    mine.resize(most, 0);
    let all = world::private(rt).gather(&mine)?;
    let Some((worker, identity)) = first_common(&all, most) else {
        return Ok(None);
    };
    if worker == world::worker(rt)
        && let Some(mapping) = own.iter().find(|mapping| mapping.identity == identity)
    {
        let why = user::UserError::SharedMemory(mapping.path.clone()).to_string();
        protection::report_loss(&why, ProtectionLoss::Unsaved);
    }
    Ok(Some(worker))
}

/// Returns the first worker that has a mapping in common with another, and that mapping.
fn first_common(all: &[u64], most: usize) -> Option<(Worker, u64)> {
    let mut first_place = HashMap::new();
    let used = (0..).zip(all).filter(|(_, identity)| **identity != 0);
    let repeated = used.filter_map(|(at, &identity)| match first_place.entry(identity) {
        Entry::Vacant(free) => {
            free.insert(at);
            None
        }
        Entry::Occupied(first) => Some((*first.get(), identity)),
    });
    let (at, identity) = repeated.min()?;
    Some((Worker::at(at / most), identity))
}

#[cfg(test)]
mod tests {
    use super::{Worker, first_common};

    #[test]
    fn the_first_worker_with_a_common_mapping_is_found() {
        assert_eq!(first_common(&[1, 0, 2, 0, 3, 0], 2), None);
        assert_eq!(first_common(&[1, 0, 2, 3, 3, 0], 2), Some((Worker(1), 3)));
        assert_eq!(first_common(&[5, 7, 7], 1), Some((Worker(1), 7)));
        assert_eq!(first_common(&[5, 7, 7, 5], 1), Some((Worker(0), 5)));
    }

    /// A search through all mappings for each mapping would take minutes.
    #[test]
    fn the_mappings_of_many_workers_need_one_pass() {
        let all: Vec<u64> = (1..=400_000).collect();
        assert_eq!(first_common(&all, 1), None);
    }
}
