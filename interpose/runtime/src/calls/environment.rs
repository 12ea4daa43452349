//! Initialisation and finalisation (MPI 4.1, chapter 11), and environmental queries.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::annotations;
use super::arguments::{outcome, put_text};
use crate::Runtime;
use crate::arch::{Rewound, mpi_lock};
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::{ERR_OTHER, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::VirtComm;
use crate::objects::session::{self, WorldModel};
use crate::objects::{attribute, comm};
use crate::{abort, clock, job, reinit, requested_checkpoint, spare, system_calls, world};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};
use understudy_catalogue::message;
use understudy_mpi::library;
use understudy_relay::RankStage;
use understudy_settings::Threads;

const THREAD_SINGLE: c_int = 0;
const THREAD_FUNNELED: c_int = 1;
const THREAD_SERIALIZED: c_int = 2;
const THREAD_MULTIPLE: c_int = 3;

/// Values that any thread may query at any time (MPI 4.1, 11.6.1).
struct ThreadQueries {
    /// Thread level that the program was given.
    level: AtomicI32,
    /// Version and subversion of the standard; 0 if unknown.
    version: [AtomicI32; 2],
}

static THREAD_QUERIES: ThreadQueries = ThreadQueries {
    level: AtomicI32::new(THREAD_SINGLE),
    version: [const { AtomicI32::new(0) }; 2],
};

/// Names of the thread levels.
const LEVELS: [&[u8]; 4] = [
    b"MPI_THREAD_SINGLE",
    b"MPI_THREAD_FUNNELED",
    b"MPI_THREAD_SERIALIZED",
    b"MPI_THREAD_MULTIPLE",
];

/// Returns the name of the thread level that the program was given.
pub(super) fn level_name() -> &'static [u8] {
    LEVELS[THREAD_QUERIES
        .level
        .load(Ordering::Relaxed)
        .clamp(THREAD_SINGLE, THREAD_MULTIPLE) as usize]
}

/// Returns the thread level with this name.
pub(super) fn level_of(name: &[u8]) -> Option<c_int> {
    LEVELS
        .iter()
        .position(|level| *level == name)
        .map(|level| level as c_int)
}

/// Initialises MPI once; returns `None` if MPI has been initialised before.
///
/// `set_level` gives the program its thread level. It runs before the first checkpoint, so the
/// checkpoint contains its effects. If the program is rolled back to this checkpoint, the call is
/// repeated, and the set-up phase starts again.
pub(super) fn initialise(
    rt: &Runtime,
    required: c_int,
    set_level: impl FnOnce(c_int),
) -> Option<c_int> {
    if !world::is_initialised() {
        return Some(begin(rt, required, set_level));
    }
    if !crate::recovery::resumed_in_init(rt) {
        return None;
    }
    // The call is repeated. For a program with another ABI the results are variables of the
    // translation, which writes them to the program's memory when this handler returns.
    set_level(THREAD_QUERIES.level.load(Ordering::Relaxed));
    crate::static_data::start(rt);
    Some(SUCCESS)
}

fn begin(rt: &Runtime, required: c_int, set_level: impl FnOnce(c_int)) -> c_int {
    crate::fault::point("init.begin", understudy_numbers::Epoch::NONE);
    spare::begin();
    requested_checkpoint::start(spare::is_worker());
    let mut provided = 0;
    let requested = required.clamp(THREAD_SINGLE, THREAD_FUNNELED);
    let rc = reinit::initialise(rt, requested, &mut provided, &spare::SPARE_FUNCTIONS);
    if rc != SUCCESS {
        return rc;
    }
    // SAFETY: the library is initialised.
    clock::start(unsafe { real::PMPI_Wtime() });
    let threads = crate::process_info::config().threads;
    let may_share = threads != Threads::Refused;
    let required = match threads {
        Threads::Serialized => required.max(THREAD_SERIALIZED),
        _ => required,
    };
    let max_level = if may_share {
        THREAD_MULTIPLE
    } else {
        THREAD_SERIALIZED
    };
    let level = required.clamp(THREAD_SINGLE, max_level);
    THREAD_QUERIES.level.store(level, Ordering::Relaxed);
    if job::agree_on_threads(rt, level >= THREAD_MULTIPLE) {
        mpi_lock::allow_concurrent_calls();
    }
    if may_share {
        crate::user::signals::keep_out_handlers();
        crate::user::threads::publish_number_offset();
    }
    if required >= THREAD_SERIALIZED && may_share {
        let (version, subversion) = crate::abi::standard_version();
        THREAD_QUERIES.version[0].store(version, Ordering::Relaxed);
        THREAD_QUERIES.version[1].store(subversion, Ordering::Relaxed);
        mpi_lock::share();
    } else if may_share {
        mpi_lock::prepare();
    }
    outcome!(job::init(rt));
    set_level(level);
    outcome!(job::first_checkpoint(rt));
    crate::user::set_stage(RankStage::Running);
    crate::static_data::start(rt);
    SUCCESS
}

/// Initialises the World Model, which sessions may have preceded.
fn init(rt: &Runtime, procedure: Proc, required: c_int, set_level: impl Fn(c_int)) -> c_int {
    let opened = |level| {
        session::set_world_model(rt, WorldModel::Open);
        set_level(level);
    };
    match initialise(rt, required, opened) {
        Some(rc) => rc,
        None if session::world_model() == WorldModel::NotYet && !world::get(rt).finalized => {
            opened(THREAD_QUERIES.level.load(Ordering::Relaxed));
            SUCCESS
        }
        None => finish(rt, procedure, ERR_OTHER, None),
    }
}

pub unsafe extern "C" fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    let rt = runtime();
    init(rt, Proc::MPI_Init, THREAD_SINGLE, |_| ())
}

pub unsafe extern "C" fn MPI_Init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    init(rt, Proc::MPI_Init_thread, required, |level| unsafe {
        provided.write(level)
    })
}

/// True if the program may open a session after `MPI_Finalize`: it imports `MPI_Session_init`.
///
/// False while spawned processes are connected, which wait for the finalisation of the library.
fn may_open_sessions(rt: &Runtime) -> bool {
    !comm::has_any_spawned(rt) && crate::user::imports_procedure("mpi_session_init")
}

pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    let rt = runtime();
    if session::world_model() != WorldModel::Open {
        return ERR_OTHER;
    }
    if session::has_sessions() || may_open_sessions(rt) {
        // Sessions may still be used, so this is not the end of MPI.
        attribute::delete_comm(rt, comm::self_handle(rt));
    } else {
        outcome!(job::await_permission_to_end(rt));
        outcome!(job::finalize(rt));
    }
    // The state is set last: the delete functions of MPI_COMM_SELF's attributes may still call MPI
    // (11.2.4).
    session::set_world_model(rt, WorldModel::Over);
    SUCCESS
}

pub unsafe extern "C" fn MPI_Initialized(flag: *mut c_int) -> c_int {
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { flag.write(c_int::from(session::world_model() != WorldModel::NotYet)) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Finalized(flag: *mut c_int) -> c_int {
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { flag.write(c_int::from(session::world_model() == WorldModel::Over)) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Abort(_comm: VirtComm, errorcode: c_int) -> c_int {
    let rt = runtime();
    if world::is_initialised() {
        system_calls::print_message(message::abort(world::worker(rt), errorcode));
    }
    abort::abort(rt, errorcode)
}

pub unsafe extern "C" fn MPI_Wtime() -> f64 {
    // SAFETY: the library allows the call also before it is initialised.
    clock::wtime().unwrap_or_else(|| unsafe { real::PMPI_Wtime() })
}

pub unsafe extern "C" fn MPI_Query_thread(provided: *mut c_int) -> c_int {
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { provided.write(THREAD_QUERIES.level.load(Ordering::Relaxed)) };
    SUCCESS
}

/// `MPI_Is_thread_main`, in a thread that may enter the runtime.
///
/// [`from_another_thread`] answers all other threads.
pub unsafe extern "C" fn MPI_Is_thread_main(flag: *mut c_int) -> c_int {
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe { flag.write(c_int::from(!mpi_lock::is_other_thread())) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Get_library_version(
    version: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    let (text, length) = library::version();
    // SAFETY: MPI requires the arguments to be valid, with room for MPI_MAX_LIBRARY_VERSION_STRING
    // characters, which are enough for this text.
    unsafe {
        put_text(version, text.as_bytes());
        resultlen.write(length);
    }
    SUCCESS
}

/// Handles a call from a thread that may not enter the runtime.
///
/// Such a call is made by another thread than the one that initialised MPI, or while another thread
/// may be in MPI. This function runs on the caller's stack, with the first two arguments of the
/// call. Queries that any thread may make are answered from atomics and constants (MPI 4.1,
/// 11.6.1). All other procedures end the process.
///
/// # Safety
/// The arguments must be those of the slot's procedure.
pub unsafe extern "C" fn from_another_thread(
    first: *mut c_int,
    second: *mut c_int,
    slot: u32,
) -> c_int {
    let procedure = Proc::ALL.get(slot as usize);
    // SAFETY: the arguments are those of the procedure, so they are addresses for its results.
    unsafe {
        match procedure {
            Some(Proc::MPI_Initialized) => MPI_Initialized(first),
            Some(Proc::MPI_Finalized) => MPI_Finalized(first),
            Some(Proc::MPI_Query_thread) => MPI_Query_thread(first),
            Some(Proc::MPI_Get_version)
                if THREAD_QUERIES.version[0].load(Ordering::Relaxed) != 0 =>
            {
                first.write(THREAD_QUERIES.version[0].load(Ordering::Relaxed));
                second.write(THREAD_QUERIES.version[1].load(Ordering::Relaxed));
                SUCCESS
            }
            Some(Proc::MPI_Get_version) => real::PMPI_Get_version(first, second),
            Some(Proc::MPI_Get_library_version) => MPI_Get_library_version(first.cast(), second),
            Some(Proc::MPI_Is_thread_main) => {
                first.write(c_int::from(crate::runtime_state::is_main_thread()));
                SUCCESS
            }
            Some(
                initialiser @ (Proc::MPI_Init | Proc::MPI_Init_thread | Proc::MPI_Session_init),
            ) if is_uninitialised() => {
                system_calls::print_message(message::other_thread(initialiser.name()));
                system_calls::exit_now(understudy_catalogue::exit_status::REFUSED)
            }
            _ => crate::error_handling::wrong_thread(slot),
        }
    }
}

/// True if MPI has not been initialised; can be called in any thread.
fn is_uninitialised() -> bool {
    session::world_model() == WorldModel::NotYet && !session::has_sessions()
}

/// `MPI_Pcontrol` (MPI 4.1, 15.2.4): may end or begin a set-up phase, or be an annotation.
pub unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    let rt = runtime();
    crate::static_data::new_phases::handle_pcontrol(rt, level);
    match annotations::handle_pcontrol(rt, level) {
        Ok(()) => SUCCESS,
        Err(Rewound) => 0,
    }
}
