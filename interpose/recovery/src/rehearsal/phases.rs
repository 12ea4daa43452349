//! Set-up phases of the program, from `MPI_Init` or a cut to their proof.

use super::replay_settings::{compares, is_on, is_rehearsed, room};
use super::{again, base, decision, input, rebuild, seed, worker};
use crate::Runtime;
use crate::{copies, journal, told, user, world};
use understudy_numbers::Epoch;

/// Forks the template process, at the end of `MPI_Init`.
pub fn prepare(rt: &Runtime) {
    if is_on() && world::is_protected() && !user::has_threads(rt) {
        rt.rehearsal.inputs.set(input::open_files());
        seed::plant(rt);
    }
}

/// Begins the set-up phase.
///
/// `MPI_Init` is about to return to the program of a worker, for the first time or after a failure
/// in the phase.
pub fn start(rt: &Runtime) {
    prepare(rt);
    if !world::is_protected() {
        return;
    }
    if is_on() {
        let records = compares() && is_rehearsed(world::worker(rt));
        journal::start(rt, &told::config().init_end, records, None, room);
    }
    decision::begin(rt);
}

/// Ends or begins a phase with the cut that is taken for this epoch.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    journal::cut(rt, epoch);
    again::cut(rt, epoch);
    worker::cut(rt, epoch);
}

/// Makes progress as far as possible without waiting; called between checkpoints.
pub fn poll(rt: &Runtime) {
    if is_on() {
        rt.rehearsal
            .holder
            .borrow_mut()
            .get_or_insert_default()
            .poll(rt, &rt.rehearsal.seed);
        base::keep(rt, copies::epoch(rt), || worker::script(rt));
        worker::poll(rt);
    }
}

/// Abandons messages and trial replays after a failure.
pub fn interrupt(rt: &Runtime) {
    journal::give_up(rt);
    again::forget(rt);
    drop(rt.rehearsal.holder.take());
    worker::interrupt(rt);
    rebuild::interrupt(rt);
}
