//! MPICH's waits give way.
//!
//! MPICH looks for messages in a loop and never lets another process run, so ranks that share a
//! core advance by a scheduler's time slice at a time. It looks by calling UCX; when that has found
//! nothing for a while, the processor is yielded here ([`crate::waits`]). Without UCX nothing
//! changes.
#![allow(unsafe_code)]

use crate::waits::{give_way, look};
use core::ffi::{CStr, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// How many looks in a row may find nothing: some microseconds.
const IDLE_LIMIT: u32 = 64;

static WORKER_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// Where the function that stands behind this one is noted.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&WORKER_PROGRESS, c"ucp_worker_progress")];

/// `ucp_worker_progress`: how much it has found.
///
/// # Safety
/// As UCX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static IDLE: AtomicU32 = AtomicU32::new(0);
    // SAFETY: UCX's function of this type, found when libmpi was loaded, with its caller's
    // argument.
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
