//! Spares: processes that wait in MPI_Init, before the MPI library is initialised.
//!
//! Spares sleep until the node manager sends them a message. With UNDERSTUDY_DAEMON they report
//! to the daemon periodically. A spare that is needed becomes a rank of the next MPI instance,
//! where it receives the state of the job (`recovery::joining`).

use crate::{DOOR, Runtime};
use crate::{daemon, events, process_info, reinit, system_calls, user};
use std::time::Duration;
use understudy_formats::events::{EndReason, Kind, Role, Spare, Worker};
use understudy_relay::RankStage;

/// Functions that the wait for the first MPI instance calls.
pub const SPARE_FUNCTIONS: reinit::SpareActions = reinit::SpareActions {
    idle: || idle(DOOR.get()),
    leave: || leave(DOOR.get()),
};

/// Returns the number of workers of the job.
fn workers() -> u32 {
    process_info::launcher_size().saturating_sub(process_info::config().spares)
}

/// True if this process was started as a worker.
pub fn is_worker() -> bool {
    process_info::process().0 < workers()
}

/// Sets the stage of this process, and prepares a spare for waiting.
pub fn begin() {
    if is_worker() {
        return user::set_stage(RankStage::Initialising);
    }
    user::set_stage(RankStage::Running);
    user::set_idle(true);
    record_start();
}

/// Writes the role of this process to the event file.
pub fn record_start() {
    let (rank, workers) = (process_info::process(), workers());
    let role = match rank.0.checked_sub(workers) {
        None => Role::Worker(Worker(rank.0)),
        Some(spare) => Role::Spare(Spare(spare)),
    };
    events::emit(Kind::Start {
        pid: std::process::id(),
        world_rank: rank,
        role,
        workers,
        spares: process_info::config().spares,
        host: user::host_name(),
        program: user::program_name(),
        command: user::command_line(),
        version: env!("CARGO_PKG_VERSION").into(),
        job: process_info::job(),
    });
}

fn idle(rt: &Runtime) -> Option<Duration> {
    match is_worker() {
        true => None,
        false => daemon::poll_spare(rt),
    }
}

/// Exits, because the job has ended without a need for this spare.
fn leave(rt: &Runtime) -> ! {
    daemon::report_unneeded(rt);
    events::emit(Kind::End {
        how: EndReason::Released,
    });
    user::release_output(rt);
    user::remove_created_system_v();
    system_calls::exit_now(0)
}
