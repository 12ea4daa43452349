//! Recovery of this process, from the error of a call to the resumed program.

use super::attempt::{self, AttemptResult};
use super::devices::{release_devices, resume_devices};
use super::failure_class::error_class;
use super::report::RecoveryReport;
use super::{load, replenish, silent_nodes};
use crate::Runtime;
use crate::arch::{self, Rewound};
use crate::objects::dynamic;
use crate::{
    checkpoint_watchdog, copies, events, headroom, peers, process_info, reinit, system_calls, user,
    world,
};
use std::ffi::c_int;
use std::sync::Once;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi::call;

/// Returns true, once, if a rollback or restart resumed the program in MPI_Init.
pub fn resumed_in_init(rt: &Runtime) -> bool {
    rt.recovery.resumed_in_init.take()
}

/// Recovers from a failure, and rewinds this process's frame.
pub(super) fn recover(rt: &Runtime, class: c_int) {
    rt.recovery.is_under_way.set(true);
    system_calls::mask_exceptions();
    let moment = events::clock();
    // No checkpoints are requested while the program does not run.
    checkpoint_watchdog::end();
    world::update(rt, |world| world.recoveries += 1);
    let recovery = world::get(rt).recoveries;
    log::debug!("recovery {recovery} begins, error class {class}");
    report_discarded_replicas();
    let started = world::get(rt).worker_count + process_info::config().spares;
    let mut report = RecoveryReport::new(recovery, started, moment, error_class(class));
    let outcome = attempt::run(rt, &mut report);
    report.emit(rt);
    peers::retain(&world::get(rt).process_of);
    // The report must precede the program's resumption, after which the program may spawn processes
    // again.
    reinit::report_rolled_back(world::worker(rt), dynamic::record_rollback(rt));
    resume(rt, &outcome, &report);
    replenish::replenish(rt);
    checkpoint_watchdog::begin(
        rt,
        copies::committed_epoch(rt),
        world::worker(rt),
        world::get(rt).process,
    );
    rt.recovery.is_under_way.set(false);
    system_calls::restore_exceptions(outcome.exceptions);
}

/// Reports, once, that this process has discarded replicas for lack of memory, if it has.
fn report_discarded_replicas() {
    static ONCE: Once = Once::new();
    if let Some(limit) = headroom::cause() {
        ONCE.call_once(|| {
            system_calls::print_message(message::replicas_discarded_before_failure(limit));
        });
    }
}

/// Takes part in the recovery for which this joining process was started.
pub fn recover_as_replacement(rt: &Runtime) -> Rewound {
    if let Err(why) = release_devices(rt) {
        system_calls::print_message(message::replacement_refused(why));
        system_calls::kill_self();
    }
    recover(rt, call::ABANDONED);
    Rewound
}

/// Resumes the program from the frame of the cut.
fn resume(rt: &Runtime, outcome: &AttemptResult, report: &RecoveryReport) {
    reinit::report_running();
    let epoch = copies::committed_epoch(rt);
    rt.recovery
        .resumed_in_init
        .set(load::is_init(&outcome.frame));
    arch::rewind(&outcome.frame);
    user::resume_threads_from_image(rt, &outcome.frame);
    resume_devices(rt);
    outcome.signals.resend(reinit::passed_signals());
    let total = report.since_failure(rt);
    events::emit(Kind::Resume {
        recovery: report.recovery,
        epoch,
        total_ns: total.as_nanos() as u64,
    });
    if outcome.reports_to_user {
        let time = system_calls::with_exceptions_masked(|| total.as_secs_f64() * 1e3);
        system_calls::print_message(message::recovered(report.summary(), epoch, time));
        silent_nodes::report(rt);
        if let Some(line) = &report.remark {
            system_calls::print_message(line);
        }
    }
}
