//! Borrows of the schedule, and its restoration.

use super::job_pace::JobPace;
use super::schedule_state::CutState;
use crate::generated::MAY_WAIT;
use crate::work_flags::{self, AGREEING, CUT_REQUESTED};
use crate::{Runtime, arch};
use std::cell::RefMut;
use std::time::Instant;
use understudy_policy::candidate_schedule::Schedule;

/// Borrows the schedule and the votes.
#[inline]
#[track_caller]
pub fn state(rt: &Runtime) -> RefMut<'_, CutState> {
    rt.schedule.state.borrow_mut()
}

/// Returns the schedule, to be saved.
pub fn schedule(rt: &Runtime) -> Schedule {
    rt.schedule.state.borrow().schedule
}

/// Restores a saved schedule.
///
/// `at_call` is true if the next call is the cut itself. Earlier votes have ended with their
/// communicator.
pub fn restore(rt: &Runtime, schedule: Schedule, at_call: bool) {
    let (pace, cost) = {
        let mut before = rt.schedule.state.borrow_mut();
        let pace = std::mem::replace(&mut before.pace, JobPace::START);
        (pace.after_recovery(), before.cost)
    };
    rt.schedule.state.set(CutState {
        last: Some(Instant::now()),
        resumed: at_call && schedule.at_candidate,
        pace,
        cost,
        ..CutState::with_schedule(schedule)
    });
    work_flags::clear(CUT_REQUESTED | AGREEING);
    arch::undivert(&MAY_WAIT);
}
