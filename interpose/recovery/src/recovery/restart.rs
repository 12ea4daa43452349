//! Restart of the whole job: every worker is restored to an epoch on disk.

use super::check::check_own;
use super::devices::{devices_go_on, leave_devices, lose_devices};
use super::load::{self, Origin};
use super::repost::{make_recorded, repost};
use super::{fetch, found};
use crate::Runtime;
use crate::arch::Rewound;
use crate::ending::{fail, failed_in_init, undone};
use crate::objects::{comm, tool, window};
use crate::{arch, copies, disk, events, fault, rendezvous, renewal, sys, user, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi as mpi;
use understudy_relay::RankStage;

/// Restores this worker at the end of MPI_Init from the chosen epoch.
///
/// The epoch is in memory.
///
/// A failure before all workers have their replicas restarts the job: nothing on disk has changed
/// until then.
pub fn from_disk(rt: &Runtime) -> Rewound {
    let began = Instant::now();
    if let Err(why) = leave_devices(rt) {
        lose_devices(rt, &std::io::Error::other(why));
    }
    fetch::fetch_from_disk(rt, world::worker(rt));
    let epoch = copies::epoch(rt);
    undone(rt, user::undo_earlier(rt, epoch));
    world::private(rt)
        .barrier()
        .unwrap_or_else(|error| failed_in_init(rt, error));
    window::shared::belong_to(world::worker(rt));
    let loaded = load::load(rt, Origin::Restart, None).unwrap_or_else(|load::Damaged(what)| {
        fail(
            rt,
            message::CHECKPOINT_DAMAGED_IN_MEMORY,
            &std::io::Error::other(what),
        )
    });
    load::take_locks(rt);
    make_copies(rt).unwrap_or_else(|error| failed_in_init(rt, error));
    disk::go_on_from(rt, world::worker(rt), epoch);
    events::set_epoch(epoch);
    found::settle(rt);
    // All replicas exist, and some workers may have resumed, so failures are recovered from now on.
    user::set_stage(RankStage::Running);
    if world::is_first_worker(rt) {
        sys::say(message::restarted(
            epoch,
            sys::quietly(|| began.elapsed().as_secs_f64() * 1e3),
            user::output_position(rt),
        ));
    }
    let made = make_recorded(rt).and_then(|()| repost(rt));
    if let Err(rewound) = check_own(rt, made, "the program's requests cannot be made again") {
        return rewound;
    }
    renewal::is_running();
    rt.recovery
        .resumed_in_init
        .set(load::is_init(&loaded.frame));
    arch::rewind(&loaded.frame);
    user::threads_go_back(rt, &loaded.frame);
    devices_go_on(rt);
    loaded.signals.send_again(renewal::passed_signals());
    sys::raise_exceptions(loaded.exceptions);
    events::emit(Kind::Resume {
        recovery: 0,
        epoch,
        total_ns: events::nanoseconds(began),
    });
    fault::point("restart.end", epoch);
    Rewound
}

/// Rebuilds communicators and replicas; returns when all workers have done so.
fn make_copies(rt: &Runtime) -> mpi::Result<()> {
    // The program has made no objects since it entered MPI_Init.
    load::check_nodes(rt, &world::get(rt).players);
    comm::drop_reals(rt);
    comm::rebuild(rt, world::get(rt).workers, copies::epoch(rt))?;
    tool::rebuild(rt);
    window::rebuild(rt, &world::get(rt).players)?;
    rendezvous::show_again(rt, world::worker(rt))?;
    fetch::make_all(rt, world::worker(rt))?;
    world::private(rt).barrier()
}
