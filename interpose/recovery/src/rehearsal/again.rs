//! A new phase: a program that sets its static data up anew (a mesh that is refined) says so with
//! `MPI_Pcontrol`.
//!
//! It begins at the next cut, and its journal is replayed by a process that is what the worker was
//! there: one that has replayed the phase before, and has then got what had changed by that cut
//! ([`base`]).

use super::new_phase::NewPhase;
use super::replay_settings::{replays, room};
use super::{base, worker};
use crate::Runtime;
use crate::{fault, journal, told, world};
use std::ffi::c_int;
use understudy_numbers::Epoch;

/// The program has called `MPI_Pcontrol`.
pub fn control(rt: &Runtime, level: c_int) {
    if replays() && world::is_protected() && told::config().new_phase == Some(level) {
        rt.rehearsal.new_phase.borrow_mut().is_asked = true;
    }
}

/// Whether a cut should be taken for it.
pub fn asks_for_cut(rt: &Runtime) -> bool {
    rt.rehearsal.new_phase.borrow().is_asked
}

/// At a cut: whether a new phase may begin here, as far as this worker is concerned.
pub fn may_begin(rt: &Runtime) -> bool {
    rt.rehearsal.new_phase.borrow().is_asked
        && !journal::is_under_way(rt)
        && !worker::is_waiting(rt)
}

/// Whether it may in all workers.
pub fn agree(rt: &Runtime, may_begin: bool) {
    rt.rehearsal.new_phase.borrow_mut().is_agreed = may_begin;
}

/// A cut is being taken for this epoch.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    if rt.rehearsal.new_phase.borrow().is_agreed {
        forget(rt);
        // The others must not wait for one who has nothing to build on.
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

/// The program is about to be rolled back.
pub fn forget(rt: &Runtime) {
    rt.rehearsal.new_phase.set(NewPhase::NOTHING);
    base::forget(rt);
}
