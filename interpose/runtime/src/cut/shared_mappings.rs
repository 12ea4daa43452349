//! Memory that workers share by other means than MPI.

use crate::protection;
use crate::user::{self, SharedMapping};
use crate::world;
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
    all.iter().enumerate().find_map(|(at, &identity)| {
        let again = all.iter().skip(at + 1).any(|&other| other == identity);
        (identity != 0 && again).then_some((Worker::at(at / most), identity))
    })
}

#[cfg(test)]
mod tests {
    use super::{Worker, first_common};

    #[test]
    fn the_first_worker_with_a_common_mapping_is_found() {
        assert_eq!(first_common(&[1, 0, 2, 0, 3, 0], 2), None);
        assert_eq!(first_common(&[1, 0, 2, 3, 3, 0], 2), Some((Worker(1), 3)));
        assert_eq!(first_common(&[5, 7, 7], 1), Some((Worker(1), 7)));
    }
}
