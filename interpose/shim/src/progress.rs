//! Lets MPICH's waits yield the processor.
//!
//! MPICH polls for messages in a loop and never yields. Ranks that share a core therefore wait for
//! each other during whole time slices of the scheduler. MPICH polls by calling UCX's
//! `ucp_worker_progress`. The function below replaces UCX's function, calls it, and yields after a
//! number of calls without progress ([`crate::waits`]). An MPICH without UCX is not affected.
//!
//! Open MPI 4 opens UCX together with a component, so UCX is not among the libraries that are
//! loaded with libmpi. Its function is then located at the first call.
#![allow(unsafe_code)]

use crate::delayed_exits::abort;
use crate::namespace_search::loaded_function;
use crate::waits::{count_poll, yield_or_sleep};
use core::ffi::{CStr, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Number of consecutive polls without progress before a yield: a few microseconds.
const MAX_IDLE_POLLS: u32 = 64;

static WORKER_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// Addresses and names of UCX's functions that this module calls.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&WORKER_PROGRESS, NAME)];

const NAME: &CStr = c"ucp_worker_progress";

/// Returns the address of UCX's function.
fn worker_progress() -> usize {
    let own = ucp_worker_progress as *const c_void;
    match loaded_function(&WORKER_PROGRESS, NAME, own) {
        // Impossible: ld.so does not load a caller without a library with that function.
        0 => abort(0),
        address => address,
    }
}

/// `ucp_worker_progress`: returns non-zero if communication has progressed.
///
/// # Safety
/// The requirements of UCX's documentation apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    /// Number of consecutive polls without progress, up to [`MAX_IDLE_POLLS`].
    static IDLE_POLLS: AtomicU32 = AtomicU32::new(0);
    // SAFETY: UCX's function has this type, and the caller meets the function's requirements.
    let progress = unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_uint = transmute(worker_progress());
        real(worker)
    };
    let idle_polls = if progress == 0 {
        IDLE_POLLS.load(Relaxed)
    } else {
        0
    };
    if idle_polls == MAX_IDLE_POLLS {
        yield_or_sleep(count_poll());
    }
    IDLE_POLLS.store((idle_polls + 1).min(MAX_IDLE_POLLS), Relaxed);
    progress
}
