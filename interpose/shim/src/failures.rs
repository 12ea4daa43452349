//! The news of a failure reaches Open MPI's requests only when what the dead process had sent has been read.
//!
//! A large message on one node is read by its receiver, which then sends a notice of completion. Open MPI 5.0 frees what a
//! send to a dead process was using as soon as the request is tested; if the notice still lies in the queue, the same
//! fragment is freed again when it is read. Two messages then share one fragment: the process crashes at the next one, or
//! a message counts as sent before it was read. libmpi asks `ompi_request_is_failed_fn` about every request that is
//! tested and not complete, and calls it through its linkage table, so this library's definition is the one that is
//! called. It lets the queues be emptied once after each failure; a dead process adds nothing to them any more.
//!
//! A send of which libmpi has told the end may fail later, when its last fragment meets the dead process's connection. libmpi
//! takes that for an error of a request that the program has freed, which is fatal; here it is the failure that everybody
//! recovers from.
//!
//! A libmpi that does not have these functions never calls them here.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How often progress is made after a failure. Each call reads up to 31 fragments from shared memory; 16 µs when there
/// are none.
const ROUNDS: u32 = 256;

static IS_FAILED: AtomicUsize = AtomicUsize::new(0);
static PROCESS_FAILED: AtomicUsize = AtomicUsize::new(0);
static PROGRESS: AtomicUsize = AtomicUsize::new(0);
/// A process is newly known as dead, and the queues have not been emptied since.
static NEWS: AtomicBool = AtomicBool::new(false);

static FATAL: AtomicUsize = AtomicUsize::new(0);
/// A process has died.
static HAS_DIED: AtomicBool = AtomicBool::new(false);

/// Open MPI's functions behind those here.
pub static REAL: [(&AtomicUsize, &CStr); 4] = [
    (&FATAL, c"ompi_mpi_errors_are_fatal_comm_handler"),
    (&IS_FAILED, c"ompi_request_is_failed_fn"),
    (&PROCESS_FAILED, c"ompi_errhandler_proc_failed_internal"),
    (&PROGRESS, c"opal_progress"),
];

/// Open MPI's: a process is known to be dead.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_errhandler_proc_failed_internal(
    process: *mut c_void,
    status: c_int,
    forward: bool,
) -> c_int {
    NEWS.store(true, Ordering::Release);
    HAS_DIED.store(true, Ordering::Release);
    // SAFETY: libmpi's function of this type, found when libmpi was loaded.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void, c_int, bool) -> c_int =
            core::mem::transmute(PROCESS_FAILED.load(Ordering::Relaxed));
        real(process, status, forward)
    }
}

/// Open MPI's: the error handler that ends the job. Variadic there; only the first word is read.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_mpi_errors_are_fatal_comm_handler(
    comm: *mut *mut c_void,
    code: *mut c_int,
    message: *const c_char,
) {
    const FREED: &[u8] = b"error after request freed";
    // SAFETY: libmpi's function of this type, found when libmpi was loaded; the message is a string or null.
    unsafe {
        let is_of_freed = || !message.is_null() && CStr::from_ptr(message).to_bytes().ends_with(FREED);
        if comm.is_null() && HAS_DIED.load(Ordering::Acquire) && is_of_freed() {
            return;
        }
        let real: unsafe extern "C" fn(*mut *mut c_void, *mut c_int, ...) =
            core::mem::transmute(FATAL.load(Ordering::Relaxed));
        real(comm, code, message);
    }
}

/// Open MPI's: whether an incomplete request has failed; it frees what such a request was using.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_request_is_failed_fn(request: *mut c_void) -> bool {
    if NEWS.load(Ordering::Acquire) {
        empty_queues();
    }
    // SAFETY: as above.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> bool = core::mem::transmute(IS_FAILED.load(Ordering::Relaxed));
        real(request)
    }
}

#[cold]
fn empty_queues() {
    NEWS.store(false, Ordering::Release);
    let progress = PROGRESS.load(Ordering::Relaxed);
    if progress == 0 {
        return;
    }
    // SAFETY: libmpi's progress function, which may be called from anywhere a request may be tested.
    unsafe {
        let progress: unsafe extern "C" fn() = core::mem::transmute(progress);
        (0..ROUNDS).for_each(|_| progress());
    }
}
