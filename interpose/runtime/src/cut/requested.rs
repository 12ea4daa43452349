//! End of a cut whose checkpoint must be on disk at once.

use crate::arch::Rewound;
use crate::{Runtime, checkpoint, recovery};
use crate::{copies, disk, process_info, requested_checkpoint, system_calls, user, world};
use std::time::Instant;
use understudy_catalogue::{exit_status, message};
use understudy_mpi::comm::Extreme;
use understudy_numbers::Worker;
use understudy_settings::CheckpointCause;

/// Message for a failed exchange.
const NO_AGREEMENT: &str = "the workers cannot agree on whether a checkpoint is on disk";

/// Waits until the checkpoint of this cut is on disk; may stop the job.
///
/// `cut` is a time at which this worker had not voted yet. Collective over all workers.
pub(super) fn conclude(rt: &Runtime, cause: CheckpointCause, cut: Instant) -> Result<(), Rewound> {
    checkpoint::finish(rt)?;
    let (epoch, worker) = (copies::committed_epoch(rt), world::worker(rt));
    let is_written = disk::await_file(rt, &mut copies::replicas(rt).store, epoch);
    if cause.stops() {
        // The job's output then ends where that of a restarted job begins.
        user::flush_output();
    }
    let own = if is_written {
        u64::MAX
    } else {
        u64::from(worker.0)
    };
    let least = world::private(rt).allreduce_min_max(Extreme::Least, &[own]);
    let least = recovery::check_own(rt, least, NO_AGREEMENT)?;
    let failed = u32::try_from(least[0]).ok().map(Worker);
    requested_checkpoint::fulfil(cut);
    if failed.is_none() {
        disk::record_complete(rt, worker, epoch);
    }
    disk::report_failure(rt, failed, worker);
    let place = process_info::config().disk.clone().unwrap_or_default();
    let (place, option) = (place.display(), requested_checkpoint::restart_option());
    let (text, status) = match (failed, cause.stops()) {
        (None, true) => (
            message::stopped_with_checkpoint(epoch, cause, place, option).to_string(),
            Some(exit_status::CHECKPOINTED),
        ),
        (None, false) => (
            message::requested_checkpoint(epoch, cause, place).to_string(),
            None,
        ),
        (Some(_), false) => (
            message::requested_checkpoint_failed(epoch, cause, place, "the job continues")
                .to_string(),
            None,
        ),
        (Some(_), true) => match disk::last_complete() {
            Some(older) => (
                message::stopped_with_older_checkpoint(cause, option, older, place).to_string(),
                Some(exit_status::CHECKPOINTED),
            ),
            None => (
                message::stopped_without_checkpoint(cause, place).to_string(),
                Some(cause.status_without_checkpoint()),
            ),
        },
    };
    if world::is_first_worker(rt) {
        system_calls::print_message(text);
    }
    match status {
        Some(status) => recovery::end_together(rt, world::is_first_worker(rt), status),
        None => Ok(()),
    }
}
