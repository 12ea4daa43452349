//! New set-up phases, which the program requests by `MPI_Pcontrol`.
//!
//! A program requests one before it sets up its static data again, for example when it refines a
//! mesh. The phase begins at the next cut. Its journal is replayed in a process that has the
//! worker's state at this cut: it has replayed the phase before, and has then got the pages that
//! had changed by the cut ([`base`]).

use super::new_phase::NewPhase;
use super::replay_settings::{replays, room};
use super::{base, worker};
use crate::Runtime;
use crate::{fault, journal, told, world};
use std::ffi::c_int;
use understudy_numbers::Epoch;

/// Handles a call of `MPI_Pcontrol` by the program.
pub fn control(rt: &Runtime, level: c_int) {
    if replays() && world::is_protected() && told::config().new_phase == Some(level) {
        rt.rehearsal.new_phase.borrow_mut().is_asked = true;
    }
}

/// True if a cut should be taken for a new phase.
pub fn asks_for_cut(rt: &Runtime) -> bool {
    rt.rehearsal.new_phase.borrow().is_asked
}

/// Returns true at a cut if this worker allows a new phase to begin there.
pub fn may_begin(rt: &Runtime) -> bool {
    rt.rehearsal.new_phase.borrow().is_asked
        && !journal::is_under_way(rt)
        && !worker::is_waiting(rt)
}

/// Records the agreement of all workers on a new phase.
pub fn agree(rt: &Runtime, may_begin: bool) {
    rt.rehearsal.new_phase.borrow_mut().is_agreed = may_begin;
}

/// Begins a new phase at the cut for this epoch, if all workers have agreed.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    if rt.rehearsal.new_phase.borrow().is_agreed {
        forget(rt);
        // A worker without a replay plan also takes part, as the others must not wait for it.
        journal::start(
            rt,
            &told::config().init_end,
            worker::script(rt).is_some(),
            Some(epoch),
            room,
        );
        fault::point("phase.begin", epoch);
    }
}

/// Drops the request for a new phase before a rollback of the program.
pub fn forget(rt: &Runtime) {
    rt.rehearsal.new_phase.set(NewPhase::NOTHING);
    base::forget(rt);
}
