//! Lets MPICH's waits yield the processor.
//!
//! MPICH polls for messages in a loop and never yields. Ranks that share a core therefore wait for
//! each other during whole time slices of the scheduler. MPICH polls by calling UCX's
//! `ucp_worker_progress`. The function below replaces UCX's function, calls it, and yields after a
//! number of calls without progress ([`crate::waits`]). An MPICH without UCX is not affected.
//!
//! Open MPI 4 opens UCX together with a component, so UCX is not among the libraries that are
//! loaded with libmpi. Its function is then located at the first call, in any library of the
//! namespace: packages of Python rename the libraries that they contain. (The caller's address does
//! not lead to UCX, because components call the function last, by a jump.)
#![allow(unsafe_code)]

use crate::delayed_exits::abort;
use crate::scope::dlopen;
use crate::waits::{count_poll, yield_or_sleep};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::ptr::null;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Number of consecutive polls without progress before a yield: a few microseconds.
const MAX_IDLE_POLLS: u32 = 64;

static WORKER_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// Addresses and names of UCX's functions that this module calls.
pub static REAL: [(&AtomicUsize, &CStr); 1] = [(&WORKER_PROGRESS, c"ucp_worker_progress")];

/// Beginning of `struct link_map` (dlinfo(3)).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const LinkMap,
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut [usize; 4],
        extra: *mut *const LinkMap,
        flags: c_int,
    ) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

/// Returns the address of UCX's function.
fn worker_progress() -> usize {
    match WORKER_PROGRESS.load(Relaxed) {
        0 => find_worker_progress(),
        address => address,
    }
}

/// Locates UCX's function in the libraries that were loaded after the shim.
#[cold]
fn find_worker_progress() -> usize {
    const RTLD_DL_LINKMAP: c_int = 2;
    let own = ucp_worker_progress as *const c_void;
    let mut object = null();
    // SAFETY: dladdr1(3) writes to both variables. The shim is the first object of its namespace,
    // whose list is linked by `next`, and ld.so keeps a library while its user calls it.
    unsafe {
        dladdr1(own, &mut [0; 4], &mut object, RTLD_DL_LINKMAP);
        while let Some(link_map) = object.as_ref() {
            object = link_map.next;
            let address = worker_progress_in(link_map);
            if !address.is_null() && !core::ptr::eq(address, own) {
                WORKER_PROGRESS.store(address as usize, Relaxed);
                return address as usize;
            }
        }
    }
    // Impossible: ld.so does not load a caller without a library with that function.
    abort(0)
}

/// Returns UCX's function in a library and those that it needs.
///
/// Returns null if there is none.
///
/// # Safety
/// The name of the loaded library must be valid.
unsafe fn worker_progress_in(link_map: &LinkMap) -> *const c_void {
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    // SAFETY: the caller guarantees a valid name; dlopen(3) loads nothing.
    unsafe {
        let library = dlopen(link_map.name, RTLD_LAZY | RTLD_NOLOAD);
        if library.is_null() {
            return null();
        }
        let address = dlsym(library, c"ucp_worker_progress".as_ptr());
        dlclose(library);
        address
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
