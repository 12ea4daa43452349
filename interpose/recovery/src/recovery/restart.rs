//! Restart of the whole job: every worker is restored to an epoch on disk.

use super::check::check_own;
use super::devices::{fail_for_lost_device, release_devices, resume_devices};
use super::load::{self, LoadOrigin};
use super::meeting::end_if_directory_is_lost;
use super::rebuild_objects::rebuild_objects;
use super::repost::{recreate_recorded, repost};
use super::{fetch, reported_replicas};
use crate::Runtime;
use crate::abort::{abort_unless, abort_with_error, await_restart_after_init};
use crate::arch::Rewound;
use crate::objects::window;
use crate::{arch, copies, disk, events, fault, reinit, system_calls, user, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi as mpi;
use understudy_relay::RankStage;

/// Restores this worker at the end of MPI_Init from the chosen epoch.
///
/// The epoch has been read into memory.
///
/// A failure before all workers have their replicas restarts the job: the checkpoints on disk have
/// not changed until then.
pub fn from_disk(rt: &Runtime) -> Rewound {
    let began = Instant::now();
    if let Err(why) = release_devices(rt) {
        fail_for_lost_device(rt, &std::io::Error::other(why));
    }
    fetch::fetch_from_disk(rt, world::worker(rt));
    let epoch = copies::committed_epoch(rt);
    end_if_directory_is_lost(rt, true);
    abort_unless(rt, user::undo_earlier(rt, epoch));
    world::private(rt)
        .barrier()
        .unwrap_or_else(|error| await_restart_after_init(rt, error));
    window::shared::own_parts_of(world::worker(rt));
    let loaded =
        load::load(rt, LoadOrigin::Restart, None).unwrap_or_else(|load::ReplicaDamage(what)| {
            abort_with_error(
                rt,
                message::CHECKPOINT_DAMAGED_IN_MEMORY,
                &std::io::Error::other(what),
            )
        });
    rebuild_replicas(rt).unwrap_or_else(|error| await_restart_after_init(rt, error));
    disk::resume_from(rt, world::worker(rt), epoch);
    events::set_epoch(epoch);
    reported_replicas::record_success(rt);
    // All replicas exist, and some workers may have resumed, so failures are recovered from now on.
    user::set_stage(RankStage::Running);
    if world::is_first_worker(rt) {
        system_calls::print_message(message::restarted(
            epoch,
            system_calls::with_exceptions_masked(|| began.elapsed().as_secs_f64() * 1e3),
            user::output_position(rt),
        ));
    }
    let made = recreate_recorded(rt).and_then(|()| repost(rt));
    if let Err(rewound) = check_own(rt, made, "the program's requests cannot be made again") {
        return rewound;
    }
    reinit::report_running();
    rt.recovery
        .resumed_in_init
        .set(load::is_init(&loaded.frame));
    arch::rewind(&loaded.frame);
    user::resume_threads_from_image(rt, &loaded.frame);
    resume_devices(rt);
    loaded.signals.resend(reinit::passed_signals());
    system_calls::restore_exceptions(loaded.exceptions);
    events::emit(Kind::Resume {
        recovery: 0,
        epoch,
        total_ns: events::nanoseconds(began),
    });
    fault::point("restart.end", epoch);
    Rewound
}

/// Rebuilds MPI objects and replicas; returns when all workers have done so.
fn rebuild_replicas(rt: &Runtime) -> mpi::Result<()> {
    // The program has made no objects since it entered MPI_Init.
    let me = world::worker(rt);
    rebuild_objects(rt, me, &world::get(rt).process_of)?;
    fetch::rebuild_all(rt, me)?;
    world::private(rt).barrier()
}
