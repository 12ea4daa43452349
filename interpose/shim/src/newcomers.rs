//! Processes that have joined the job do not wait for each other at the end.
//!
//! In MPI_Finalize Open MPI 5.0 disconnects all communicators that have processes of several launches (`ompi_dpm_dyn_finalize`), by
//! an exchange over each of them, but only if there are at least two. A process that has joined last has one, and does not take part:
//! the others wait for it for ever. Nobody needs that exchange; where spares have joined, there is none.
//!
//! A libmpi that does not have this function never calls it here.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

static FINALIZE: AtomicUsize = AtomicUsize::new(0);
/// Processes have joined, or this one has.
static HAVE_COME: AtomicBool = AtomicBool::new(false);

/// Open MPI's function behind that here.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&FINALIZE, c"ompi_dpm_dyn_finalize")];

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
