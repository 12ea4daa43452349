//! End of a job that cannot continue.

use crate::user::UserError;
use crate::{events, renewal, sys, user};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_formats::events::{EndHow, Kind};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_relay::RankStage;

/// Ends the job; the launcher exits with this status.
pub fn abort(rt: &Runtime, code: c_int) -> ! {
    user::set_stage(RankStage::Running);
    events::emit(Kind::End {
        how: EndHow::Aborted(code),
    });
    user::release_output(rt);
    renewal::abort(code)
}

/// Ends the job, because to continue would risk a wrong result.
pub fn fail(rt: &Runtime, what: &str, error: &dyn std::error::Error) -> ! {
    sys::say(format_args!("{what}: {}; the job ends", sys::chain(error)));
    abort(rt, understudy_abi::exit::UNSAVED)
}

/// Ends the job if files could not be restored to their state at the checkpoint.
pub fn undone(rt: &Runtime, result: Result<(), UserError>) {
    if let Err(error) = result {
        fail(rt, message::EFFECTS_NOT_UNDONE, &error);
    }
}

/// Ends the job after the loss of a process without protection.
pub fn end_unprotected(rt: &Runtime) -> ! {
    sys::say(message::DEATH_WITHOUT_PROTECTION);
    abort(rt, understudy_abi::exit::LOST)
}

/// Waits for the restart of the job after a failure before the first checkpoint.
pub fn failed_in_init(rt: &Runtime, error: mpi::Error) -> ! {
    log::info!("MPI_Init has failed: {error}");
    renewal::await_restart(rt)
}
