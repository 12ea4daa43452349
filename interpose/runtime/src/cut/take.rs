//! Steps of a cut: agreement, bookmark exchange, drain and checkpoint.

use super::agree::agree;
use super::leave::LeavingNode;
use super::{requested, shortage};
use crate::arch::{self, Rewound, mpi_lock};
use crate::drain;
use crate::objects::tool::written;
use crate::objects::{comm, file, window};
use crate::requests::{self, RequestKind};
use crate::{Runtime, recovery};
use crate::{
    abort, checkpoint, checkpoint_watchdog, completion, copies, fault, process_info, protection,
    requested_checkpoint, schedule, static_data, user, world,
};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_policy::cut_agreement::{CutAbility, CutDecision};
use understudy_settings::Interval;

/// Message for operations on windows that do not end.
const NO_QUIET: &str = "the operations on windows do not end";

/// True if a cut would be taken here because of the interval alone.
fn is_regular(rt: &Runtime) -> bool {
    match process_info::config().interval {
        Interval::Time(_) | Interval::Auto => {
            let state = schedule::state(rt);
            let interval = state.pace.interval();
            state.last.is_none_or(|last| last.elapsed() >= interval)
        }
        Interval::Calls(_) | Interval::Off => true,
    }
}

/// Takes a cut here and starts its checkpoint, if all workers can be saved.
pub fn take(rt: &Runtime) -> Result<(), Rewound> {
    take_at(rt, true)
}

/// Implements [`take`] at a candidate, or at any call.
pub(super) fn take_at(rt: &Runtime, candidate: bool) -> Result<(), Rewound> {
    mpi_lock::open_if_owned();
    copies::end_preparation(rt);
    checkpoint::finish(rt)?;
    fault::point("cut.begin", copies::next_epoch(rt));
    static_data::poll(rt);
    completion::reap_orphans(rt)?;
    let are_even = recovery::check_own(rt, window::quiesce(rt), NO_QUIET)?;
    let (ability, objection) = ability(rt, are_even)?;
    let arrived = Instant::now();
    let (decision, votes) = agree(rt, ability, candidate.then(|| is_regular(rt)))?;
    if decision != CutDecision::Take {
        user::resume_threads(rt);
        recovery::resume_devices(rt);
    }
    match decision {
        CutDecision::Take => {
            fault::point("cut.agreed", copies::next_epoch(rt));
            schedule::state(rt).schedule.at_candidate = candidate;
            user::record_files_at_cut(rt);
            if let Err(error) = file::record_at_cut(rt) {
                abort::abort_with_error(rt, message::FILES_NOT_SAVED, &error);
            }
            drain::drain(rt, &drain::exchange(rt)?)?;
            fault::point("cut.end", copies::next_epoch(rt));
            let (began, epoch) = (Instant::now(), copies::next_epoch(rt));
            let leaving = votes
                .leaver
                .map(|(order, leaver)| LeavingNode::of(rt, order, leaver));
            checkpoint::take(rt, leaving.as_ref().is_some_and(LeavingNode::is_own))?;
            recovery::check_own(rt, window::wait_for_captures(rt), NO_QUIET)?;
            {
                let mut state = schedule::state(rt);
                state.cost = began.elapsed();
                let cost = state.cost;
                state.pace.measure(cost);
                state.last = Some(Instant::now());
                state.refusals = 0;
            }
            checkpoint_watchdog::begin(rt, epoch, world::worker(rt), world::get(rt).process);
            requested_checkpoint::record_worker();
            if let Some(cause) = votes.request {
                requested::conclude(rt, cause, arrived)?;
            }
            if let Some(leaving) = leaving {
                leaving.conclude(rt)?;
            }
        }
        CutDecision::Postpone => {
            log::debug!(
                "a collective is under way somewhere, a library is being opened, spawned \
                 processes are connected, a communicator was made before a control variable was \
                 written, or the program allows none: the cut is postponed"
            );
            if candidate {
                schedule::state(rt).schedule.postpone();
            }
            checkpoint_watchdog::record_postponed_cut(comm::has_any_spawned(rt));
        }
        CutDecision::NoRoom(shortage) => shortage::skip(rt, &shortage),
        CutDecision::Refuse => {
            let mut state = schedule::state(rt);
            state.refusals += 1;
            state.last = Some(Instant::now());
            drop(state);
            checkpoint_watchdog::restart_after_refusal(candidate);
        }
        CutDecision::EndProtection { reporter, loss } => {
            if reporter == world::worker(rt)
                && let Some(why) = objection
            {
                protection::report_loss(&why, loss);
            }
            checkpoint_watchdog::end();
            protection::give_up_protection(rt, loss);
        }
    }
    Ok(())
}

/// Number of successive intervals with a refused cut after which protection is given up.
const MAX_REFUSALS: u32 = 10;

/// Returns the ability of a rank whose kernel state cannot be restored.
///
/// The second result is the reason why no checkpoint is possible, after [`MAX_REFUSALS`] intervals.
fn refusal(rt: &Runtime, why: &user::UserError) -> (CutAbility, Option<String>) {
    log::info!("no checkpoint at this interval: {why}");
    if schedule::state(rt).refusals + 1 < MAX_REFUSALS {
        return (CutAbility::Refused, None);
    }
    let reason = message::no_checkpoint_possible(why, world::worker(rt), MAX_REFUSALS);
    (CutAbility::Never, Some(reason.to_string()))
}

/// Returns the ability of this rank to be saved here.
///
/// The second result is the reason why the rank cannot be saved any more, if there is one.
/// `are_even` is true if the operations on windows are complete.
fn ability(rt: &Runtime, are_even: bool) -> Result<(CutAbility, Option<String>), Rewound> {
    if let Err(why) = user::check(rt) {
        return Ok((CutAbility::Never, Some(why.to_string())));
    }
    if let Some(why) = shortage::lost_copies() {
        return Ok((CutAbility::Yielded, Some(why)));
    }
    let collectives = completion::test_all(
        rt,
        requests::active(rt, |kind| {
            matches!(
                kind,
                RequestKind::Collective(_)
                    | RequestKind::OneSided
                    | RequestKind::Duplicate(_)
                    | RequestKind::Recorded(_)
            )
        }),
    )?;
    let is_inhibited = schedule::state(rt).inhibit_depth > 0;
    let is_callback = arch::top_frame().is_none();
    let is_open = !collectives.is_empty()
        || requests::has_unready(rt)
        || !are_even
        || !file::check_names(rt)
        || !written::check_communicators(rt);
    let is_able = !is_open
        && !user::is_loading()
        && !is_inhibited
        && !is_callback
        && !comm::has_any_spawned(rt);
    let reports = world::is_worker() && world::is_first_worker(rt);
    let is_saved = match is_able.then(|| user::save_devices(rt, reports)) {
        None => false,
        Some(Ok(is_saved)) => is_saved,
        Some(Err(lost @ user::UserError::DeviceLost(_))) => {
            recovery::fail_for_lost_device(rt, &lost)
        }
        Some(Err(why)) => return Ok((CutAbility::Never, Some(why.to_string()))),
    };
    if !is_saved || !user::stop_threads(rt) {
        return Ok((CutAbility::Later, None));
    }
    Ok(match user::check_kernel_state(rt) {
        Ok(()) => (CutAbility::Now, None),
        Err(why) => refusal(rt, &why),
    })
}
