//! Claim of the directory of checkpoints by all processes of the job.

use super::disk_level::DiskLevel;
use crate::gather::gather_from_all;
use crate::reinit::report_owner_file;
use understudy_formats::epochs::heartbeat::PATIENCE;
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Rank, Worker};

/// Claims the directory for the job, and agrees on the term of the job. Collective.
///
/// Returns the reason for which the job must not start. Rank 0 claims first, since others then find
/// its file; each node has a file of its own if the directory is on a local disk.
pub fn claim(disk: &mut DiskLevel, comm: RealComm, worker: Worker) -> mpi::Result<Option<String>> {
    for is_turn_of_first in [true, false] {
        let is_first = comm.rank()? == Rank(0);
        let claimed = match is_first == is_turn_of_first {
            true => disk.places.claim(disk.nonce, None, PATIENCE),
            false => Ok(()),
        };
        let refusal = claimed.err().and_then(|error| disk.places.refusal(&error));
        if let Some(why) = first_of(comm, refusal)? {
            return Ok(Some(why));
        }
    }
    report_ownership(disk);
    let owned = disk.places.ownership.as_ref().map(|it| it.owner().term);
    let newest = disk.places.keys(worker).last().map_or(0, |key| key.term);
    let term = owned.unwrap_or(0).max(newest + 1);
    disk.term = comm.allreduce_min_max(Extreme::Greatest, &[term])?[0];
    Ok(None)
}

/// Reports the owner file to the node manager, which rewrites it at intervals.
fn report_ownership(disk: &DiskLevel) {
    if let Some(ownership) = &disk.places.ownership {
        report_owner_file(ownership.file().path());
    }
}

/// Claims the directory if that was impossible so far.
pub fn claim_late(disk: &mut DiskLevel) {
    if disk.places.ownership.is_none() {
        disk.claim_late();
        report_ownership(disk);
    }
}

/// Returns the reason of the lowest rank that has a reason. Collective.
fn first_of(comm: RealComm, own: Option<String>) -> mpi::Result<Option<String>> {
    Ok(gather_from_all(comm, &own)?.into_iter().flatten().next())
}
