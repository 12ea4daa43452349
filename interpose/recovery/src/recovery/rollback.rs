//! Recovery of this process, from the error of a call to the resumed program.

use super::attempt::{self, Outcome};
use super::devices::{devices_go_on, leave_devices};
use super::failure_class::error_class;
use super::report::Report;
use super::{alone, load, replenish};
use crate::Runtime;
use crate::arch::{self, Rewound};
use crate::objects::dynamic;
use crate::{copies, events, headroom, overdue, peers, renewal, sys, told, user, world};
use std::ffi::c_int;
use std::sync::Once;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_mpi::call;

/// Returns true, once, if MPI_Init was entered by a rollback to its end.
pub fn resumed_in_init(rt: &Runtime) -> bool {
    rt.recovery.resumed_in_init.take()
}

/// Runs attempts until one succeeds, and rewinds this process's frame.
///
/// If too many attempts fail, the process manager ends the job.
pub(super) fn recover(rt: &Runtime, class: c_int) {
    rt.recovery.is_under_way.set(true);
    sys::mask_exceptions();
    let moment = events::clock();
    // No checkpoints are requested while the program does not run.
    overdue::end();
    world::update(rt, |world| world.recoveries += 1);
    let recovery = world::get(rt).recoveries;
    log::debug!("recovery {recovery} begins, error class {class}");
    report_lost_copies();
    let started = world::get(rt).worker_count + told::config().spares;
    let mut report = Report::new(recovery, started, moment, error_class(class));
    let outcome = loop {
        match attempt::run(rt, &mut report) {
            Ok(outcome) => break outcome,
            Err(attempt::Again) => log::debug!("another failure: recovery {recovery} starts over"),
        }
    };
    report.emit(rt);
    peers::keep_only(&world::get(rt).players);
    // Before the program can spawn processes again.
    renewal::went_back(world::worker(rt), dynamic::went_back(rt));
    resume(rt, &outcome, &report);
    replenish::replenish(rt);
    overdue::begin(
        rt,
        copies::epoch(rt),
        world::worker(rt),
        world::get(rt).process,
    );
    rt.recovery.is_under_way.set(false);
    sys::raise_exceptions(outcome.exceptions);
}

/// Reports that this process's replicas are damaged, if they are.
fn report_lost_copies() {
    static ONCE: Once = Once::new();
    if let Some(limit) = headroom::cause() {
        ONCE.call_once(|| {
            sys::say(message::replicas_discarded_before_failure(limit));
        });
    }
}

/// Takes part in the recovery for which this joining process was started.
pub fn take_part_at_once(rt: &Runtime) -> Rewound {
    if let Err(why) = leave_devices(rt) {
        sys::say(message::replacement_refused(why));
        sys::kill_self();
    }
    recover(rt, call::ABANDONED);
    Rewound
}

/// Resumes the program from the frame of the cut.
fn resume(rt: &Runtime, outcome: &Outcome, report: &Report) {
    renewal::is_running();
    let epoch = copies::epoch(rt);
    rt.recovery
        .resumed_in_init
        .set(load::is_init(&outcome.frame));
    arch::rewind(&outcome.frame);
    user::threads_go_back(rt, &outcome.frame);
    devices_go_on(rt);
    outcome.signals.send_again(renewal::passed_signals());
    let total = report.since_failure(rt);
    events::emit(Kind::Resume {
        recovery: report.recovery,
        epoch,
        total_ns: total.as_nanos() as u64,
    });
    if outcome.is_speaker {
        let time = sys::quietly(|| total.as_secs_f64() * 1e3);
        sys::say(message::recovered(report.summary(), epoch, time));
        alone::tell(rt);
        if let Some(line) = &report.remark {
            sys::say(line);
        }
    }
}
