//! Lets MPICH's waits yield the processor.
//!
//! MPICH polls for messages in a loop and never yields. Ranks that share a core therefore advance
//! by one time slice of the scheduler at a time. MPICH polls by calling UCX. After a number of
//! calls without progress the function below yields ([`crate::waits`]). An MPICH without UCX is not
//! affected.
#![allow(unsafe_code)]

use crate::waits::{give_way, look};
use core::ffi::{CStr, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Number of consecutive polls without progress before a yield: a few microseconds.
const IDLE_LIMIT: u32 = 64;

static WORKER_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// Address and name of the library's function that [`ucp_worker_progress`] calls.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&WORKER_PROGRESS, c"ucp_worker_progress")];

/// `ucp_worker_progress`: returns non-zero if communication has progressed.
///
/// # Safety
/// As UCX's documentation requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static IDLE: AtomicU32 = AtomicU32::new(0);
    // SAFETY: UCX's function has this type; its address was stored when libmpi was loaded. The
    // argument is the caller's.
    let found = unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_uint =
            transmute(WORKER_PROGRESS.load(Relaxed));
        real(worker)
    };
    let idle = if found == 0 { IDLE.load(Relaxed) } else { 0 };
    if idle == IDLE_LIMIT {
        give_way(look());
    }
    IDLE.store((idle + 1).min(IDLE_LIMIT), Relaxed);
    found
}
