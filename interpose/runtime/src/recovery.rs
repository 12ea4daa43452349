//! After a failure: from the error of one MPI call back to a running job.
//!
//! ```text
//!   detect → reset (leave the generation) → drain → initialise (the next generation) → agree (who lives, which epoch)
//!          → replace (new communicators) → fetch (the dead rank's copy) → load (everybody) → rebuild → re-protect → resume
//! ```
//!
//! A further failure is met anywhere in between by an error of some call, and leads to the start, in one more generation.
//! Loading is repeated from the copies, which stay intact.
#![allow(unsafe_code)]

mod alone;
mod attempt;
mod deaths;
mod fetch;
mod found;
mod group;
mod load;
mod meeting;
mod moves;
mod newcomers;
mod partitioned;
mod replenish;
mod report;
mod repost;
mod restart;
mod wishes;

use crate::arch::Rewound;
use crate::cell::{Door, Field, runtime};
use crate::errors::{ERR_IN_STATUS, ERR_INTERN, ERR_OTHER, ERR_UNKNOWN, SUCCESS};
use crate::generated::real;
use crate::objects::dynamic;
use crate::{
    arch, copies, ending, events, headroom, overdue, peers, rehearsal, renewal, sys, told, user,
    world,
};
use understudy_formats::events::{ErrorClass, Kind};
use understudy_mpi as mpi;

pub use meeting::end_together;
pub use newcomers::{come_in, learn_places, welcome};
use report::Report;
pub use restart::from_disk as restart_from_disk;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Once;
use understudy_mpi::call;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, Worker};
pub use wishes::offer as offer_to_choose;

runtime! {
    pub struct Runtime: rehearsal::Runtime {
        /// Whether the program goes on from the end of MPI_Init.
        resumed_in_init: Cell<bool> = Cell::new(false),
        /// Whether a recovery runs.
        is_under_way: Cell<bool> = Cell::new(false),
        /// The communicator of a newcomer's first generation, until its first recovery takes it.
        first: Field<Option<RealComm>> = Field::new(None),
        /// Workers whose part was taken over, and on whose node nobody lived any more.
        alone: Field<Vec<Worker>> = Field::new(Vec::new()),
        /// What this process has found of a dead one.
        heritage: Field<found::Found> = Field::new(found::Found::START),
        /// What this process has been told, and for which generation.
        asked: Field<Option<(Generation, wishes::Asked)>> = Field::new(None),
        /// Deaths that may be the program's doing.
        history: Field<deaths::History> = Field::new(deaths::History::START),
    }
}

/// For what lower modules, and the program, call.
pub static DOOR: Door<Runtime> = Door::new();

/// Evaluates to the return code of a real procedure. If a process has failed, the whole recovery has been run and the
/// handler returns.
#[macro_export]
macro_rules! attempt {
    ($rt:expr, $call:expr) => {
        match $crate::recovery::check($rt, $call) {
            Ok(rc) => rc,
            Err($crate::arch::Rewound) => return 0,
        }
    };
}

/// Whether MPI_Init is entered because the program was set back to its end; true once.
pub fn resumed_in_init(rt: &Runtime) -> bool {
    rt.resumed_in_init.take()
}

/// Looks at the return code of a real procedure; recovers if it means that a process has failed.
#[inline]
pub fn check(rt: &Runtime, rc: c_int) -> Result<c_int, Rewound> {
    if rc == SUCCESS {
        Ok(rc)
    } else {
        classify(rt, rc)
    }
}

/// Looks at what a message of the runtime's own has come to: a failure leads to recovery, any other error to the end of the job.
pub fn check_own<T>(rt: &Runtime, outcome: mpi::Result<T>, what: &str) -> Result<T, Rewound> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => {
            classify(rt, error.code())?;
            ending::fail(rt, what, &error)
        }
    }
}

#[cold]
fn classify(rt: &Runtime, rc: c_int) -> Result<c_int, Rewound> {
    let Some(class) = failure(rc) else {
        return Ok(rc);
    };
    if rt.is_under_way.get() {
        // What the program's libraries do while they are opened again.
        ending::fail(
            rt,
            "a process failed while a library of the program that is opened again communicated",
            &std::io::Error::other(understudy_mpi::error::text(rc)),
        );
    }
    // Callbacks are not returned to: the program goes on outside of them.
    arch::leave_callbacks();
    recover(rt, class);
    Err(Rewound)
}

/// The class of an error that is the failure of a process, or follows from one.
fn failure(rc: c_int) -> Option<c_int> {
    let mut class = rc;
    // SAFETY: a local query.
    let asked = unsafe { real::PMPI_Error_class(rc, &mut class) };
    if asked == call::ABANDONED {
        // A process has failed meanwhile, and nobody tells of what this was.
        class = asked;
    }
    let means_failure = || match class {
        call::ABANDONED => true,
        ERR_UNKNOWN | ERR_OTHER | ERR_INTERN | ERR_IN_STATUS => call::is_over_soon(),
        _ => false,
    };
    (world::is_protected() && means_failure()).then_some(class)
}

fn error_class(class: c_int) -> ErrorClass {
    match class {
        call::ABANDONED => ErrorClass::Abandoned,
        class => ErrorClass::Other(class),
    }
}

/// Runs attempts until one succeeds, and this process's frame is rewound. (If too many fail, the process manager ends the job.)
fn recover(rt: &Runtime, class: c_int) {
    rt.is_under_way.set(true);
    sys::mask_exceptions();
    let moment = events::clock();
    // The program is not asked for checkpoints while it stands still.
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
    // Before anybody can spawn processes anew.
    renewal::went_back(world::worker(rt), dynamic::went_back(rt));
    resume(rt, &outcome, &report);
    replenish::replenish(rt);
    overdue::begin(
        rt,
        copies::epoch(rt),
        world::worker(rt),
        world::get(rt).process,
    );
    rt.is_under_way.set(false);
    sys::raise_exceptions(outcome.exceptions);
}

/// Reports that this process's copies are damaged, if they are.
fn report_lost_copies() {
    static ONCE: Once = Once::new();
    if let Some(limit) = headroom::cause() {
        ONCE.call_once(|| {
            sys::say(format_args!(
                "copies on this node were given up before the failure, since the program needed \
                 their memory: almost none was left in {limit}"
            ));
        });
    }
}

/// A newcomer takes part in the recovery that it was started for.
pub fn take_part_at_once(rt: &Runtime) -> Rewound {
    if let Err(why) = leave_devices(rt) {
        crate::sys::say(format_args!("a new process cannot take a part: {why}"));
        crate::sys::kill_self();
    }
    recover(rt, call::ABANDONED);
    Rewound
}

/// Gives device memory that is in the program's back to the device, when threads run.
pub fn devices_go_on(rt: &Runtime) {
    if let Err(lost) = user::devices_go_on(rt) {
        lose_devices(rt, &lost);
    }
}

/// Ends the job: what a device held does not come back.
pub fn lose_devices(rt: &Runtime, why: &dyn std::error::Error) -> ! {
    ending::fail(
        rt,
        "the memory of the program's accelerator cannot be put back",
        why,
    )
}

/// In a process that is to take a part: what it has on devices itself is let go of. Why that cannot be.
fn leave_devices(rt: &Runtime) -> Result<(), String> {
    let reports = world::is_playing() && world::is_first_worker(rt);
    match user::save_devices(rt, reports) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the driver of its accelerator is busy".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn resume(rt: &Runtime, outcome: &attempt::Outcome, report: &Report) {
    renewal::is_running();
    let epoch = copies::epoch(rt);
    rt.resumed_in_init.set(load::is_init(&outcome.frame));
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
        crate::sys::say(format_args!(
            "{}; back at epoch {epoch} after {:.1} ms",
            report.summary(),
            sys::quietly(|| total.as_secs_f64() * 1e3)
        ));
        alone::tell(rt);
        if let Some(line) = &report.remark {
            crate::sys::say(format_args!("{line}"));
        }
    }
}
