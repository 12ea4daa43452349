//! A new phase: a program that sets its static data up anew (a mesh that is refined) says so with `MPI_Pcontrol`.
//!
//! It begins at the next cut, and its journal is replayed by a process that is what the worker was there: one that has replayed
//! the phase before, and has then got what had changed by that cut ([`base`]).

use super::{base, replays, room, worker};
use crate::cell::Main;
use crate::{fault, journal, told, world};
use std::ffi::c_int;
use understudy_numbers::Epoch;

/// What is known of new phases.
struct NewPhase {
    /// The program has asked for one.
    is_asked: bool,
    /// All workers have, and it begins with the next cut.
    is_agreed: bool,
}

const NOTHING: NewPhase = NewPhase {
    is_asked: false,
    is_agreed: false,
};

static STATE: Main<NewPhase> = Main::new(NOTHING);

/// The program has called `MPI_Pcontrol`.
pub fn control(level: c_int) {
    if replays() && world::is_protected() && told::config().new_phase == Some(level) {
        STATE.borrow_mut().is_asked = true;
    }
}

/// Whether a cut should be taken for it.
pub fn asks_for_cut() -> bool {
    STATE.borrow().is_asked
}

/// At a cut: whether a new phase may begin here, as far as this worker is concerned.
pub fn may_begin() -> bool {
    STATE.borrow().is_asked && !journal::is_under_way() && !worker::is_waiting()
}

/// Whether it may in all workers.
pub fn agree(may_begin: bool) {
    STATE.borrow_mut().is_agreed = may_begin;
}

/// A cut is being taken for this epoch.
pub fn cut(epoch: Epoch) {
    if STATE.borrow().is_agreed {
        forget();
        // The others must not wait for one who has nothing to build on.
        journal::start(&told::config().init_end, worker::script().is_some(), Some(epoch), room);
        fault::point("phase.begin", epoch);
    }
}

/// The program is about to be rolled back.
pub fn forget() {
    STATE.set(NOTHING);
    base::forget();
}
