//! End of a job that cannot continue.

use crate::user::UserError;
use crate::{events, reinit, system_calls, user};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_formats::events::{EndReason, Kind};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_relay::RankStage;

/// Ends the job; the launcher exits with this status.
pub fn abort(rt: &Runtime, code: c_int) -> ! {
    user::set_stage(RankStage::Running);
    events::emit(Kind::End {
        how: EndReason::Aborted(code),
    });
    user::release_output(rt);
    reinit::abort(code)
}

/// Ends the job, because to continue would risk a wrong result.
pub fn abort_with_error(rt: &Runtime, what: &str, error: &dyn std::error::Error) -> ! {
    system_calls::print_message(format_args!(
        "{what}: {}; the job ends",
        system_calls::error_chain(error)
    ));
    abort(rt, understudy_catalogue::exit_status::STATE_NOT_SAVED)
}

/// Ends the job if files could not be restored to their state at the checkpoint.
pub fn abort_unless(rt: &Runtime, result: Result<(), UserError>) {
    if let Err(error) = result {
        abort_with_error(rt, message::EFFECTS_NOT_UNDONE, &error);
    }
}

/// Ends a job without protection after the loss of a process.
pub fn abort_unprotected(rt: &Runtime) -> ! {
    system_calls::print_message(message::DEATH_WITHOUT_PROTECTION);
    abort(rt, understudy_catalogue::exit_status::RECOVERY_FAILED)
}

/// Waits for the restart of the job after a failure before the first checkpoint.
pub fn await_restart_after_init(rt: &Runtime, error: mpi::Error) -> ! {
    log::info!("MPI_Init has failed: {error}");
    reinit::await_restart(rt)
}
