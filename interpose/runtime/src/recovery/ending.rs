//! The end of the job where it cannot go on.

use super::attempt::announce_abort;
use crate::user::UserError;
use crate::{errors, events, peers, renewal, sys, traffic, user, world};
use ckptd::events::{EndHow, Kind};
use ckptd::relay::RankStage;
use std::ffi::c_int;

/// Ends the job with a status: the launcher's status will be this process's.
pub fn abort(code: c_int) -> ! {
    user::set_stage(RankStage::Running);
    traffic::tell();
    events::emit(Kind::End {
        how: EndHow::Aborted(code),
    });
    user::release_output();
    if renewal::is_on() {
        renewal::abort(code);
    }
    if peers::has_others() && world::is_initialised() {
        announce_abort(code);
    }
    peers::end_local();
    // The others could not ask their relays to do it.
    let size = match world::is_initialised() {
        true => world::get().nodes.len() as u32,
        false => 0,
    };
    (0..size).for_each(user::remove_ledger);
    // A launcher takes a process that ends with 0 for one that was done.
    sys::exit_now(if code & 0xff == 0 { 1 } else { code })
}

/// Ends the job: going on would risk a wrong result.
pub fn fail(what: &str, error: &dyn std::error::Error) -> ! {
    sys::say(format_args!("{what}: {}; the job ends", sys::chain(error)));
    abort(understudy_abi::exit::UNSAVED)
}

/// Ends the job if files are not what they were at the checkpoint.
pub fn undone(result: Result<(), UserError>) {
    if let Err(error) = result {
        fail("the effects on files since the checkpoint cannot be undone", &error);
    }
}

/// A process was lost, and nothing can be gone back to.
pub fn end_unprotected() -> ! {
    sys::say(format_args!(
        "a process of the job has died, and the job is not protected; the job ends"
    ));
    abort(understudy_abi::exit::LOST)
}

/// A process was lost before there was anything to go back to.
pub fn failed_in_init(rc: c_int) -> ! {
    if renewal::is_on() {
        renewal::await_restart();
    }
    sys::say(format_args!(
        "a process failed during MPI_Init ({}); start the job again",
        errors::text(rc)
    ));
    abort(1)
}
