//! Idle spares: asleep inside MPI_Init until they are given a part or released.
use super::recover;
use crate::arch::Rewound;
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::world::{self, Part};
use crate::{daemon, disk, events, peers, rehearsal, renewal, sys, user};
use ckptd::events::{EndHow, Kind};
use ckptd::relay::RankStage;
use std::ffi::c_int;
use std::time::{Duration, Instant};
use understudy_mpi::call;

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

/// Waits for the end of the job; the error class if there is other news.
fn wait() -> c_int {
    let control = world::get().control;
    loop {
        if call::is_over() {
            return call::ABANDONED;
        }
        if renewal::has_ended() {
            return SUCCESS;
        }
        rehearsal::poll_spare(control);
        daemon::poll_spare();
        nap();
    }
}

/// The job has ended without needing this spare.
fn leave() -> ! {
    disk::end(false);
    daemon::leave();
    events::emit(Kind::End { how: EndHow::Released });
    user::release_output();
    sys::exit_now(0)
}
