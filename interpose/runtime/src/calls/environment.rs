//! Start and end (MPI 4.1, chapter 11) and what belongs to neither.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use crate::cell::Main;
use crate::errors::{ERR_OTHER, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::VirtComm;
use crate::raise::finish;
use crate::world;
use crate::{job, recovery};
use ckptd::relay::RankStage;
use std::ffi::{c_char, c_int};

const THREAD_SINGLE: c_int = 0;
const THREAD_FUNNELED: c_int = 1;
const THREAD_SERIALIZED: c_int = 2;

/// The thread level that the program was given.
static LEVEL: Main<c_int> = Main::new(THREAD_SINGLE);

/// Initialises, once. `written` runs before the first checkpoint, so that what it writes is part of the image. When the
/// program is rewound to that checkpoint, it comes here again, and its initialisation phase begins anew.
fn init(procedure: Proc, required: c_int, written: impl FnOnce(c_int)) -> c_int {
    if world::is_initialised() {
        if !crate::recovery::resumed_in_init() {
            return finish(procedure, ERR_OTHER, None);
        }
        crate::rehearsal::start();
        return SUCCESS;
    }
    crate::user::set_stage(RankStage::Initialising);
    crate::fault::point("init.begin", 0);
    let mut provided = 0;
    let asked = required.clamp(THREAD_SINGLE, THREAD_FUNNELED);
    // SAFETY: the real library gets no arguments of the program's.
    let rc = unsafe { real::PMPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), asked, &mut provided) };
    if rc != SUCCESS {
        return rc;
    }
    *LEVEL.get() = required.clamp(THREAD_SINGLE, THREAD_SERIALIZED);
    crate::quiet::silence_topology_warning();
    outcome!(job::init());
    written(*LEVEL.get());
    outcome!(job::first_checkpoint());
    crate::user::set_stage(RankStage::Running);
    crate::rehearsal::start();
    crate::journal::trace::start();
    SUCCESS
}

/// `MPI_Init`
pub unsafe extern "C" fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    init(Proc::MPI_Init, THREAD_SINGLE, |_| ())
}

/// `MPI_Init_thread`: one thread at a time is the most that is given.
pub unsafe extern "C" fn MPI_Init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the program's argument.
    init(Proc::MPI_Init_thread, required, |level| unsafe {
        provided.write(level)
    })
}

/// `MPI_Finalize`
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    if !world::is_initialised() || world::get().finalized {
        return ERR_OTHER;
    }
    outcome!(job::finalize())
}

/// `MPI_Initialized`
pub unsafe extern "C" fn MPI_Initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the program's argument.
    unsafe { flag.write(c_int::from(world::is_initialised())) };
    SUCCESS
}

/// `MPI_Finalized`
pub unsafe extern "C" fn MPI_Finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the program's argument.
    unsafe { flag.write(c_int::from(world::is_initialised() && world::get().finalized)) };
    SUCCESS
}

/// `MPI_Abort`
pub unsafe extern "C" fn MPI_Abort(_comm: VirtComm, errorcode: c_int) -> c_int {
    if world::is_initialised() {
        crate::sys::say(format_args!(
            "MPI_Abort was called by worker {} with error code {errorcode}; the job ends",
            world::worker()
        ));
    }
    recovery::abort(errorcode)
}

/// `MPI_Query_thread`
pub unsafe extern "C" fn MPI_Query_thread(provided: *mut c_int) -> c_int {
    // SAFETY: the program's argument.
    unsafe { provided.write(*LEVEL.get()) };
    SUCCESS
}

/// `MPI_Is_thread_main`: only the thread that initialised MPI can enter.
pub unsafe extern "C" fn MPI_Is_thread_main(flag: *mut c_int) -> c_int {
    // SAFETY: the program's argument.
    unsafe { flag.write(1) };
    SUCCESS
}

/// `MPI_Pcontrol` (MPI 4.1, 15.2.4): a level may end an initialisation phase, or begin another.
pub unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    crate::rehearsal::again::control(level);
    SUCCESS
}
