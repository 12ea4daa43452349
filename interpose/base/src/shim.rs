//! What the shims do for the runtime: functions of the first library of its namespace and of the
//! MPI library's.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use understudy_mpi::library;

/// What the shim of the runtime's own namespace does.
struct Own {
    hold_descriptors: unsafe extern "C" fn(),
    release_descriptors: unsafe extern "C" fn(),
}

/// What the shim of the MPI library's namespace does.
struct Mpi {
    own: Own,
    mark_waits: unsafe extern "C" fn(*const AtomicU8),
    hold_ends: unsafe extern "C" fn(extern "C" fn() -> bool),
    after_cancellation: unsafe extern "C" fn(extern "C" fn()),
}

fn own_of(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Own> {
    // SAFETY: the shim exports functions of these types.
    unsafe {
        Some(Own {
            hold_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_hold_descriptors",
            )?),
            release_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_release_descriptors",
            )?),
        })
    }
}

fn present(function: *mut c_void) -> Option<*mut c_void> {
    (!function.is_null()).then_some(function)
}

/// `None` in unit tests, which have no shim.
fn own() -> Option<&'static Own> {
    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    OWN.get_or_init(|| {
        // SAFETY: dlsym(3) in this namespace.
        own_of(|name| present(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }))
    })
    .as_ref()
}

/// `None` in unit tests, which have no shim.
fn mpi() -> Option<&'static Mpi> {
    static MPI: OnceLock<Option<Mpi>> = OnceLock::new();
    MPI.get_or_init(|| {
        let find = |name: &CStr| present(library::shim_function(name));
        // SAFETY: the shim exports functions of these types.
        unsafe {
            Some(Mpi {
                own: own_of(find)?,
                mark_waits: transmute::<*mut c_void, unsafe extern "C" fn(*const AtomicU8)>(find(
                    c"understudy_shim_mark_waits",
                )?),
                hold_ends: transmute::<*mut c_void, unsafe extern "C" fn(extern "C" fn() -> bool)>(
                    find(c"understudy_shim_hold_ends")?,
                ),
                after_cancellation: transmute::<*mut c_void, unsafe extern "C" fn(extern "C" fn())>(
                    find(c"understudy_shim_after_cancellation")?,
                ),
            })
        }
    })
    .as_ref()
}

/// Both shims, the runtime's first.
fn both() -> impl DoubleEndedIterator<Item = &'static Own> {
    own().into_iter().chain(mpi().map(|mpi| &mpi.own))
}

/// Tells waits where to look what the call of MPI waits for ([`understudy_abi::wait`]).
pub fn mark_waits(byte: &'static AtomicU8) {
    if let Some(mpi) = mpi() {
        // SAFETY: the shim's function; the byte lives as long as the process.
        unsafe { (mpi.mark_waits)(byte) };
    }
}

/// From now on the MPI library does not end this process while `is_over`, nor for a while before,
/// if its server may have died.
pub fn hold_ends(is_over: extern "C" fn() -> bool) {
    if let Some(mpi) = mpi() {
        // SAFETY: the shim's function.
        unsafe { (mpi.hold_ends)(is_over) };
    }
}

/// Calls this function after each `pthread_cancel`(3) of the MPI library.
pub fn after_cancellation(function: extern "C" fn()) {
    if let Some(mpi) = mpi() {
        // SAFETY: the shim's function.
        unsafe { (mpi.after_cancellation)(function) };
    }
}

/// As long as it lives, this thread is the only one of the runtime side that opens anything: what
/// is below the runtime side's descriptors is the program's.
#[derive(Debug)]
pub struct Descriptors(());

/// Waits until the others have lifted theirs.
pub fn hold_descriptors() -> Descriptors {
    for shim in both() {
        // SAFETY: the shim's function.
        unsafe { (shim.hold_descriptors)() };
    }
    Descriptors(())
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        for shim in both().rev() {
            // SAFETY: the shim's function, once for each call of the other.
            unsafe { (shim.release_descriptors)() };
        }
    }
}

/// fork(2) while no other thread has a descriptor that it has not lifted yet: the child has none of
/// these.
///
/// # Safety
/// As fork(2).
pub unsafe fn fork() -> libc::pid_t {
    let _held = hold_descriptors();
    // SAFETY: handed on to the caller. Both processes end what is held.
    unsafe { libc::fork() }
}
