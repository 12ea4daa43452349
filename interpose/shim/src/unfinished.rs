//! Communicators that are being made when the news of a failure comes.
//!
//! Open MPI 5.0 then disables the collectives of every communicator that it has in its list (`ompi_comm_revoke_local`), among
//! them one that has a context id but no collectives yet: it calls through a null pointer. libmpi calls its own functions
//! through its linkage table, so those here are called instead. They know which communicators are unfinished: from the
//! allocation of the id to the end of the activation. What was to be disabled meanwhile is disabled then.
//!
//! A libmpi that does not have these functions never calls them here.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

type NextCid =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *const c_void, *const c_void, c_int, c_int) -> c_int;
type Activate = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
) -> c_int;
type RevokeLocal = unsafe extern "C" fn(*mut c_void, bool) -> bool;

static NEXT_CID: AtomicUsize = AtomicUsize::new(0);
static ACTIVATE: AtomicUsize = AtomicUsize::new(0);
static REVOKE_LOCAL: AtomicUsize = AtomicUsize::new(0);

/// One that is being made.
struct Unfinished {
    comm: AtomicPtr<c_void>,
    /// Its collectives are to be disabled.
    is_broken: AtomicBool,
}

/// MPI is called by one thread; a communicator may be made while another one is.
static UNFINISHED: [Unfinished; 16] = [const {
    Unfinished {
        comm: AtomicPtr::new(null_mut()),
        is_broken: AtomicBool::new(false),
    }
}; 16];

fn find(comm: *mut c_void) -> Option<&'static Unfinished> {
    UNFINISHED.iter().find(|entry| entry.comm.load(Relaxed) == comm)
}

fn begin(comm: *mut c_void) {
    if find(comm).is_none()
        && let Some(entry) = find(null_mut())
    {
        entry.is_broken.store(false, Relaxed);
        entry.comm.store(comm, Relaxed);
    }
}

/// Whether its collectives are to be disabled.
fn end(comm: *mut c_void) -> bool {
    find(comm).is_some_and(|entry| {
        entry.comm.store(null_mut(), Relaxed);
        entry.is_broken.load(Relaxed)
    })
}

/// Open MPI's functions behind those here.
pub static REAL: [(&AtomicUsize, &CStr); 3] = [
    (&NEXT_CID, c"ompi_comm_nextcid"),
    (&ACTIVATE, c"ompi_comm_activate"),
    (&REVOKE_LOCAL, c"ompi_comm_revoke_local"),
];

/// Open MPI's: allocates the context id of a communicator, which is in the list from then on.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_nextcid(
    made: *mut c_void,
    from: *mut c_void,
    bridge: *mut c_void,
    local: *const c_void,
    remote: *const c_void,
    sends_first: c_int,
    mode: c_int,
) -> c_int {
    begin(made);
    // SAFETY: libmpi's function of this type, found when libmpi was loaded.
    let rc = unsafe {
        let real: NextCid = transmute(NEXT_CID.load(Relaxed));
        real(made, from, bridge, local, remote, sends_first, mode)
    };
    if rc != 0 {
        end(made);
    }
    rc
}

/// Open MPI's: gives a communicator its collectives.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_activate(
    made: *mut *mut c_void,
    from: *mut c_void,
    bridge: *mut c_void,
    local: *const c_void,
    remote: *const c_void,
    sends_first: c_int,
    mode: c_int,
) -> c_int {
    // SAFETY: as above; libmpi passes a pointer to its own variable.
    unsafe {
        let comm = *made;
        begin(comm);
        let real: Activate = transmute(ACTIVATE.load(Relaxed));
        let rc = real(made, from, bridge, local, remote, sends_first, mode);
        if end(comm) && rc == 0 && *made == comm {
            ompi_comm_revoke_local(comm, true);
        }
        rc
    }
}

/// Open MPI's: disables a communicator, or only its collectives.
///
/// # Safety
/// Called by libmpi.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_revoke_local(comm: *mut c_void, only_collectives: bool) -> bool {
    if let Some(entry) = find(comm) {
        entry.is_broken.store(true, Relaxed);
        return false;
    }
    // SAFETY: as above.
    unsafe {
        let real: RevokeLocal = transmute(REVOKE_LOCAL.load(Relaxed));
        real(comm, only_collectives)
    }
}
