//! New set-up phases, which the program requests by `MPI_Pcontrol`.
//!
//! A program requests a new phase before it sets up its static data once more, for example when it
//! refines a mesh. The phase begins at the next cut. A replay needs the worker's state at that
//! cut: the child process first replays the preceding phase, and then loads the pages that differ
//! at the cut (`replay_base`).

use super::new_phase_request::NewPhaseRequest;
use super::replay_settings::{journal_limit_bytes, replays};
use super::{replay_base, worker_plan};
use crate::Runtime;
use crate::{fault, journal, process_info, world};
use std::ffi::c_int;
use understudy_numbers::Epoch;

/// Handles a call of `MPI_Pcontrol` by the program.
pub fn handle_pcontrol(rt: &Runtime, level: c_int) {
    if replays() && world::is_protected() && process_info::config().new_phase == Some(level) {
        rt.static_data.new_phase.borrow_mut().is_requested = true;
    }
}

/// True if a cut should be taken for a new phase.
pub fn is_cut_requested(rt: &Runtime) -> bool {
    rt.static_data.new_phase.borrow().is_requested
}

/// Returns true at a cut if this worker allows a new phase to begin there.
pub fn may_begin(rt: &Runtime) -> bool {
    rt.static_data.new_phase.borrow().is_requested
        && !journal::is_under_way(rt)
        && !worker_plan::is_waiting(rt)
}

/// Records the agreement of all workers on a new phase.
pub fn set_agreed(rt: &Runtime, may_begin: bool) {
    rt.static_data.new_phase.borrow_mut().is_agreed = may_begin;
}

/// Begins a new phase at the cut for this epoch, if all workers have agreed.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    if rt.static_data.new_phase.borrow().is_agreed {
        drop_request(rt);
        // A worker without a replay plan also takes part, as other workers must not wait for it.
        journal::start(
            rt,
            &process_info::config().init_end,
            worker_plan::plan(rt).is_some(),
            Some(epoch),
            journal_limit_bytes,
        );
        fault::point("phase.begin", epoch);
    }
}

/// Drops the request for a new phase.
///
/// The phase begins now, or the program is rolled back.
pub fn drop_request(rt: &Runtime) {
    rt.static_data.new_phase.set(NewPhaseRequest::NONE);
    replay_base::clear(rt);
}
