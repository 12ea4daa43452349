//! Set-up phases of the program, from `MPI_Init` or a cut to their proof.

use super::replay_settings::{compares, is_in_trial, journal_limit_bytes, runs_trials};
use super::{decision, input, new_phases, replay_base, template_process, worker_plan};
use crate::Runtime;
use crate::{copies, journal, process_info, user, world};
use understudy_numbers::Epoch;

/// Forks the template process, at the end of `MPI_Init`.
pub fn prepare(rt: &Runtime) {
    if runs_trials() && world::is_protected() && !user::has_threads(rt) {
        rt.static_data.inputs.set(input::open_files());
        template_process::fork_template(rt);
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
    if runs_trials() {
        let records = compares() && is_in_trial(world::worker(rt));
        journal::start(
            rt,
            &process_info::config().init_end,
            records,
            None,
            journal_limit_bytes,
        );
    }
    decision::begin(rt);
}

/// Ends or begins a phase with the cut that is taken for this epoch.
pub fn cut(rt: &Runtime, epoch: Epoch) {
    journal::end_at_cut(rt, epoch);
    new_phases::cut(rt, epoch);
    worker_plan::cut(rt, epoch);
}

/// Makes progress as far as possible without waiting; called between checkpoints.
pub fn poll(rt: &Runtime) {
    if runs_trials() {
        rt.static_data
            .trials
            .borrow_mut()
            .get_or_insert_default()
            .poll(rt, &rt.static_data.template);
        replay_base::save(rt, copies::committed_epoch(rt), || worker_plan::plan(rt));
        worker_plan::poll(rt);
    }
}

/// Abandons messages and trial replays after a failure.
pub fn interrupt(rt: &Runtime) {
    journal::drop_recording(rt);
    new_phases::drop_request(rt);
    drop(rt.static_data.trials.take());
    worker_plan::interrupt(rt);
}
