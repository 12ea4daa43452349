//! Selection of the newest checkpoint on disk of which every worker has a whole file.

use super::disk_level::DiskLevel;
use super::load::LoadedCheckpoint;
use crate::gather::gather_from_all;
use crate::system_calls;
use understudy_catalogue::message;
use understudy_formats::epochs::epoch_files::{self, EpochFileName, EpochKey};
use understudy_formats::epochs::epoch_format::EpochError;
use understudy_image::store::PageStore;
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Checkpoint that all workers have.
pub struct ChosenCheckpoint {
    pub key: EpochKey,
    /// File of this process's worker, loaded.
    pub loaded: LoadedCheckpoint,
}

/// Returns the checkpoints of which each process's worker has a file.
pub fn keys_of_all(
    disk: &DiskLevel,
    comm: RealComm,
    worker: Worker,
) -> mpi::Result<Vec<Vec<EpochKey>>> {
    gather_from_all(comm, &disk.places.keys(worker))
}

/// True if all workers have a file of some checkpoint.
pub fn is_any_complete(by_worker: &[Vec<EpochKey>]) -> bool {
    let Some((first, others)) = by_worker.split_first() else {
        return false;
    };
    let is_everywhere = |key| others.iter().all(|keys| keys.contains(key));
    first.iter().any(is_everywhere)
}

/// True if the processes pass different values.
pub fn differs(comm: RealComm, own: bool) -> mpi::Result<bool> {
    let least = comm.allreduce_min_max(Extreme::Least, &[u64::from(own), u64::from(!own)])?;
    Ok(least == [0, 0])
}

/// Selects and loads a checkpoint, over all processes of `comm`.
///
/// This process is or replaces `worker`. If a newer checkpoint is unusable, one worker prints the
/// reason.
pub fn choose(
    disk: &DiskLevel,
    comm: RealComm,
    worker: Worker,
    store: &mut PageStore,
) -> mpi::Result<Option<ChosenCheckpoint>> {
    let mut own = disk.places.keys(worker);
    own.retain(|&key| disk.places.permits(key));
    let candidates = epoch_files::restorable_epochs(&gather_from_all(comm, &own)?);
    for (index, &key) in candidates.iter().enumerate() {
        let name = EpochFileName { key, worker };
        let attempt = disk.places.load(name, &disk.identity, store);
        let objector = lowest_worker(comm, attempt.is_err().then_some(worker))?;
        match (attempt, objector) {
            (Ok(loaded), None) => {
                return Ok(Some(ChosenCheckpoint { key, loaded }));
            }
            (Ok(mut loaded), Some(_)) => loaded.image.clear(store),
            (Err(damage), Some(objector)) if objector == worker => {
                refuse(disk, name, &damage, candidates.get(index + 1));
            }
            (Err(_), _) => {}
        }
    }
    Ok(None)
}

fn refuse(disk: &DiskLevel, name: EpochFileName, damage: &EpochError, next: Option<&EpochKey>) {
    let next = next.map_or_else(String::new, |key| {
        format!("; checkpoint {} is tried", key.epoch)
    });
    let path = disk.places.directory.join(name.to_string());
    let (path, epoch) = (path.display(), name.key.epoch);
    system_calls::print_message(message::checkpoint_unusable(epoch, path, damage, next));
}

/// Returns the lowest of the workers that the processes pass, if any process passes one.
fn lowest_worker(comm: RealComm, own: Option<Worker>) -> mpi::Result<Option<Worker>> {
    let own = own.map_or(u64::MAX, |worker| u64::from(worker.0));
    let all = comm.allreduce_min_max(Extreme::Least, &[own])?;
    Ok(u32::try_from(all[0]).ok().map(Worker))
}
