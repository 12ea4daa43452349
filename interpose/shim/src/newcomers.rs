//! Processes that have joined the job do not wait for each other at the end.
//!
//! In MPI_Finalize Open MPI 5.0 disconnects all communicators that have processes of several launches (`ompi_dpm_dyn_finalize`), by
//! an exchange over each of them, but only if there are at least two. A process that has joined last has one, and does not take part:
//! the others wait for it for ever. Nobody needs that exchange; where spares have joined, there is none.
//!
//! Whoever accepts a newcomer calls `PMIx_Connect`, which waits for every process that it names, and for ever if one of these dies
//! meanwhile; the launcher's own deadline (`mpi_pmix_connect_timeout`) does not end that wait. Where spares have joined, it ends here.
//!
//! A libmpi that does not have these functions never calls them here.
#![allow(unsafe_code)]

use crate::time::{nap, now};
use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

/// How long a connection may take.
const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;
/// `PMIX_ERR_TIMEOUT`
const TIMEOUT: c_int = -24;
/// What no status is: the connection is under way.
const UNDER_WAY: c_int = c_int::MAX;

static FINALIZE: AtomicUsize = AtomicUsize::new(0);
static CONNECT: AtomicUsize = AtomicUsize::new(0);
static BEGIN_CONNECT: AtomicUsize = AtomicUsize::new(0);
/// Number of the connection that is waited for: the end of one that was given up may come later.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
/// Its status.
static STATUS: AtomicI32 = AtomicI32::new(UNDER_WAY);
/// Processes have joined, or this one has.
static HAVE_COME: AtomicBool = AtomicBool::new(false);

/// The functions behind those here.
pub static REAL: [(&AtomicUsize, &CStr); 3] = [
    (&FINALIZE, c"ompi_dpm_dyn_finalize"),
    (&CONNECT, c"PMIx_Connect"),
    (&BEGIN_CONNECT, c"PMIx_Connect_nb"),
];

type Connect = unsafe extern "C" fn(*const c_void, usize, *const c_void, usize) -> c_int;
type BeginConnect = unsafe extern "C" fn(
    *const c_void,
    usize,
    *const c_void,
    usize,
    extern "C" fn(c_int, *mut c_void),
    *mut c_void,
) -> c_int;

/// A process joins the job, or this one does.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_note_newcomers() {
    HAVE_COME.store(true, Relaxed);
}

/// Open MPI's: waits for all processes of other launches.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_dpm_dyn_finalize() -> c_int {
    if HAVE_COME.load(Relaxed) {
        return 0;
    }
    // SAFETY: libmpi's function of this type, found when libmpi was loaded.
    unsafe {
        let real: unsafe extern "C" fn() -> c_int = transmute(FINALIZE.load(Relaxed));
        real()
    }
}

/// PMIx's (PMIx 4.1 standard, 12.3.1): makes processes of several launches known to each other.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Connect(
    processes: *const c_void,
    process_count: usize,
    info: *const c_void,
    info_count: usize,
) -> c_int {
    if !HAVE_COME.load(Relaxed) {
        // SAFETY: PMIx's function of this type, found when libmpi was loaded.
        return unsafe {
            let real: Connect = transmute(CONNECT.load(Relaxed));
            real(processes, process_count, info, info_count)
        };
    }
    let number = CURRENT.load(Relaxed) + 1;
    STATUS.store(UNDER_WAY, Relaxed);
    CURRENT.store(number, Release);
    // SAFETY: as above. PMIx has copied the arguments when this returns; the callback uses statics only.
    let begun = unsafe {
        let begin: BeginConnect = transmute(BEGIN_CONNECT.load(Relaxed));
        begin(
            processes,
            process_count,
            info,
            info_count,
            connected,
            number as *mut c_void,
        )
    };
    if begun != 0 {
        return begun;
    }
    let deadline = now() + CONNECT_TIMEOUT_NS;
    loop {
        match STATUS.load(Acquire) {
            UNDER_WAY if now() < deadline => nap(),
            UNDER_WAY => return TIMEOUT,
            status => return status,
        }
    }
}

/// A connection has ended; called by a thread of PMIx.
extern "C" fn connected(status: c_int, number: *mut c_void) {
    if CURRENT.load(Acquire) == number as usize {
        STATUS.store(status, Release);
    }
}
