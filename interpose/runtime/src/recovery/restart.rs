//! The whole job has been started again: every worker becomes what it was at an epoch on disk.

use super::RESUMED_IN_INIT;
use super::fetch;
use super::load::{self, Origin};
use super::repost::repost;
use crate::arch::Rewound;
use crate::ending::{fail, failed_in_init, undone};
use crate::objects::{comm, window};
use crate::{arch, copies, disk, events, sys, user, world};
use ckptd::events::Kind;
use ckptd::relay::RankStage;
use std::time::Instant;
use understudy_mpi as mpi;

/// At the end of MPI_Init, when the epoch is chosen and in memory. A failure here ends the job; nothing on disk has
/// changed then, so it can be started again.
pub fn from_disk() -> Rewound {
    let began = Instant::now();
    fetch::fetch_from_disk(world::worker());
    let epoch = copies::epoch();
    undone(user::undo_earlier(epoch));
    world::private().barrier().unwrap_or_else(|error| failed_in_init(error));
    window::shared::belong_to(world::worker());
    let loaded = load::load(Origin::Restart, None).unwrap_or_else(|load::Damaged(what)| {
        fail("the epoch on disk was damaged in memory", &std::io::Error::other(what))
    });
    make_copies().unwrap_or_else(|error| failed_in_init(error));
    disk::go_on_from(world::worker());
    events::set_epoch(epoch);
    if repost().is_err() {
        failed_in_init(mpi::Error::ABANDONED);
    }
    RESUMED_IN_INIT.set(load::is_init(&loaded.frame));
    user::set_stage(RankStage::Running);
    arch::rewind(&loaded.frame);
    user::threads_go_back(&loaded.frame);
    events::emit(Kind::Resume {
        recovery: 0,
        epoch,
        total_ns: events::nanoseconds(began),
    });
    if world::is_first_worker() {
        sys::say(format_args!(
            "the job goes on from epoch {epoch} on disk, after {:.1} ms; {}",
            began.elapsed().as_secs_f64() * 1e3,
            user::output_position()
        ));
    }
    Rewound
}

/// Communicators, and the copies of the buddies. Nobody goes on before all have got so far.
fn make_copies() -> mpi::Result<()> {
    // The program has made none since its MPI_Init has begun.
    load::check_nodes(&world::get().players);
    comm::drop_reals();
    comm::rebuild(world::get().workers, copies::epoch())?;
    window::rebuild()?;
    fetch::make_all(world::worker())?;
    world::private().barrier()
}
