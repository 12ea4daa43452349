//! Idle spares: asleep inside MPI_Init until they are given a part or released.
#![allow(unsafe_code)]

use super::recover;
use crate::arch::Rewound;
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles;
use crate::world::{self, Part};
use crate::{daemon, disk, events, own_messages, peers, rehearsal, renewal, sys, user};
use ckptd::events::{EndHow, Kind};
use ckptd::relay::RankStage;
use std::ffi::c_int;
use std::time::{Duration, Instant};
use understudy_mpi::real_types::{ANY_SOURCE, RealComm, RealGroup, RealRequest, UNDEFINED};
use understudy_mpi::ulfm;

/// Tag of the message that releases a spare.
pub const TAG_RELEASE: c_int = 9;
/// A spare sleeps this many times as long as a look for news takes (up to 60 µs were measured), and so uses half a percent
/// of a core, however slow that is …
const REST: u32 = 200;
/// … and at least and at most so long.
const NAP: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(25));
/// While it has a phase rehearsed, which takes a core anyway.
const BUSY_NAP: Duration = Duration::from_millis(1);
/// After the death of a process of this node, news is likely: it looks this often …
const SHORT_NAP: Duration = Duration::from_micros(100);
/// … for this long.
const ALERT: Duration = Duration::from_millis(200);

/// How long a release may be on its way when no worker lives any more.
const LAST_WORD: Duration = Duration::from_secs(2);

static ALERT_UNTIL: Main<Option<Instant>> = Main::new(None);
/// The processor time that this process had used when it went to sleep for the last time.
static USED: Main<Duration> = Main::new(Duration::ZERO);

/// How long to sleep after a look, the sleep before it included, that has taken this processor time.
fn rest_after(look: Duration) -> Duration {
    (look * REST).clamp(NAP.0, NAP.1)
}

/// Sleeps until the next look.
fn nap() {
    let is_alert = ALERT_UNTIL.borrow().is_some_and(|until| Instant::now() < until);
    let used = sys::thread_time();
    let look = used.saturating_sub(USED.replace(used));
    let limit = match (is_alert, rehearsal::spare_is_busy()) {
        (true, _) => SHORT_NAP,
        (false, true) => BUSY_NAP,
        (false, false) => rest_after(look),
    };
    if peers::sleep_until_death(limit) {
        ALERT_UNTIL.set(Some(Instant::now() + ALERT));
    }
    // Otherwise each look, as a part of a long wait, would sleep once more.
    crate::arch::end_wait();
}

static RELEASE: Main<RealRequest> = Main::new(RealRequest(std::ptr::null_mut()));

/// The receive of the release has died with its communicator.
pub fn forget() {
    RELEASE.set(RealRequest(std::ptr::null_mut()));
}

/// Sleeps until this spare has a part (then the program's frame is that of the dead rank) or the job ends.
pub fn wait_for_part() -> Result<(), Rewound> {
    user::set_idle(true);
    user::set_stage(RankStage::Running);
    rehearsal::prepare();
    loop {
        match wait() {
            SUCCESS => leave(),
            class => recover(class),
        }
        if let Part::Worker(_) = world::get().part {
            user::set_idle(false);
            return Err(Rewound);
        }
    }
}

/// Waits for the release; the error class if there is other news. That somebody has died is no news: the workers will
/// meet it when they communicate, and revoke the communicator then. Unless none of them is left.
fn wait() -> c_int {
    let control = world::get().control;
    let mut orphaned = None;
    loop {
        let rc = wait_once(control, orphaned);
        if is_over(orphaned) {
            return rc;
        }
        if rc != ulfm::ERR_PROC_FAILED_PENDING && rc != ulfm::ERR_PROC_FAILED {
            return rc;
        }
        own_messages::drive(&mut [*RELEASE.borrow()], NAP.0);
        // SAFETY: a local procedure on a valid communicator.
        unsafe { ulfm::MPIX_Comm_failure_ack(control) };
        if orphaned.is_none() && workers_are_dead(control) {
            orphaned = Some(Instant::now() + LAST_WORD);
        }
        nap();
    }
}

fn is_over(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| Instant::now() >= moment)
}

/// Whether all processes that play a part are among the dead that have been acknowledged.
fn workers_are_dead(control: RealComm) -> bool {
    let world = world::get();
    // The living are in the same order in `control`.
    let members = world.living.iter().enumerate();
    let workers: Vec<c_int> = members
        .filter(|(_, rank)| world.players.contains(rank))
        .map(|(at, _)| at as c_int)
        .collect();
    let mut among_dead = vec![0; workers.len()];
    let [mut dead, mut all] = [RealGroup(std::ptr::null_mut()), RealGroup(std::ptr::null_mut())];
    // SAFETY: local queries; lists of the same length.
    unsafe {
        if ulfm::MPIX_Comm_failure_get_acked(control, &mut dead) != SUCCESS
            || real::PMPI_Comm_group(control, &mut all) != SUCCESS
        {
            return false;
        }
        let count = workers.len() as c_int;
        let rc = real::PMPI_Group_translate_ranks(all, count, workers.as_ptr(), dead, among_dead.as_mut_ptr());
        real::PMPI_Group_free(&mut dead);
        real::PMPI_Group_free(&mut all);
        rc == SUCCESS && among_dead.iter().all(|&rank| rank != UNDEFINED)
    }
}

/// `until`: when to give up; `MPI_ERR_PROC_FAILED` then.
fn wait_once(control: RealComm, until: Option<Instant>) -> c_int {
    let mut request = RealRequest(std::ptr::null_mut());
    // SAFETY: an empty message; the request is tested until it ends.
    unsafe {
        let rc = real::PMPI_Irecv(
            std::ptr::null_mut(),
            0,
            handles::byte_type(),
            ANY_SOURCE,
            TAG_RELEASE,
            control,
            &mut request,
        );
        RELEASE.set(request);
        if rc != SUCCESS {
            return rc;
        }
        loop {
            let mut flag = 0;
            let rc = real::PMPI_Test(&mut request, &mut flag, std::ptr::null_mut());
            RELEASE.set(request);
            if rc != SUCCESS || flag != 0 {
                return rc;
            }
            if is_over(until) {
                real::PMPI_Cancel(&mut request);
                real::PMPI_Request_free(&mut request);
                RELEASE.set(request);
                return ulfm::ERR_PROC_FAILED;
            }
            if renewal::has_ended() {
                return SUCCESS;
            }
            rehearsal::poll_spare(control);
            daemon::poll_spare();
            nap();
        }
    }
}

/// The job has ended without needing this spare.
fn leave() -> ! {
    disk::end(false);
    daemon::leave();
    events::emit(Kind::End { how: EndHow::Released });
    user::release_output();
    if !renewal::is_on() {
        // SAFETY: the last call of the real library.
        unsafe { real::PMPI_Finalize() };
    }
    sys::exit_now(0)
}

/// Releases all spares: called by one worker when all have reached the end.
pub fn release() {
    let world = world::get();
    let mut size = 0;
    // SAFETY: a local query.
    unsafe { real::PMPI_Comm_size(world.control, &mut size) };
    // After the workers (by rank in the launcher's world, which shrinking keeps) come the spares; a message to an
    // understudy, which plays a part, is never received.
    for rank in 0..size {
        let mut request = RealRequest(std::ptr::null_mut());
        // SAFETY: an empty message, sent eagerly; it is not waited for.
        unsafe {
            let rc = real::PMPI_Isend(
                std::ptr::null(),
                0,
                handles::byte_type(),
                rank,
                TAG_RELEASE,
                world.control,
                &mut request,
            );
            if rc == SUCCESS {
                real::PMPI_Request_free(&mut request);
            }
        }
    }
}
