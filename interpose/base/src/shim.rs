//! Functions of both copies of the shim: in the runtime's and in the MPI namespace.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use understudy_mpi::library;

/// Functions of the shim in the runtime's own namespace.
struct ShimFunctions {
    hold_descriptors: unsafe extern "C" fn(),
    release_descriptors: unsafe extern "C" fn(),
    separate_descriptors: unsafe extern "C" fn(),
}

/// Functions of the shim in the MPI library's namespace.
struct MpiShimFunctions {
    own: ShimFunctions,
    set_wait_byte: unsafe extern "C" fn(*const AtomicU8),
    delay_exit: unsafe extern "C" fn(extern "C" fn() -> bool),
    after_cancellation: unsafe extern "C" fn(extern "C" fn()),
}

fn shim_functions(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<ShimFunctions> {
    // SAFETY: the shim exports functions of these types.
    unsafe {
        Some(ShimFunctions {
            hold_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_hold_descriptors",
            )?),
            release_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_release_descriptors",
            )?),
            separate_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_separate_descriptors",
            )?),
        })
    }
}

fn non_null(function: *mut c_void) -> Option<*mut c_void> {
    (!function.is_null()).then_some(function)
}

/// Returns the runtime's shim; `None` in unit tests, which have no shim.
fn runtime_shim() -> Option<&'static ShimFunctions> {
    static OWN: OnceLock<Option<ShimFunctions>> = OnceLock::new();
    OWN.get_or_init(|| {
        // SAFETY: dlsym(3) with a C string, in this namespace.
        shim_functions(|name| non_null(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }))
    })
    .as_ref()
}

/// Returns the MPI library's shim; `None` in unit tests, which have no shim.
fn mpi_shim() -> Option<&'static MpiShimFunctions> {
    static MPI: OnceLock<Option<MpiShimFunctions>> = OnceLock::new();
    MPI.get_or_init(|| {
        let find = |name: &CStr| non_null(library::shim_function(name));
        // SAFETY: the shim exports functions of these types.
        unsafe {
            Some(MpiShimFunctions {
                own: shim_functions(find)?,
                set_wait_byte: transmute::<*mut c_void, unsafe extern "C" fn(*const AtomicU8)>(
                    find(c"understudy_shim_mark_waits")?,
                ),
                delay_exit: transmute::<*mut c_void, unsafe extern "C" fn(extern "C" fn() -> bool)>(
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

/// Iterates over both shims, the runtime's first.
fn both_shims() -> impl DoubleEndedIterator<Item = &'static ShimFunctions> {
    runtime_shim()
        .into_iter()
        .chain(mpi_shim().map(|mpi| &mpi.own))
}

/// Sets the byte that describes the current wait of an MPI call ([`understudy_abi::wait_state`]).
pub fn mark_waits(byte: &'static AtomicU8) {
    if let Some(mpi) = mpi_shim() {
        // SAFETY: the shim exports a function of this type; the byte lives as long as the process.
        unsafe { (mpi.set_wait_byte)(byte) };
    }
}

/// Delays exits by the MPI library while `is_recovery_pending` returns true.
///
/// The MPI library calls exit(3) if its PMIx or PMI-1 server has died. The shim waits for at least
/// some seconds, in which the failure may be reported, and as long as a recovery is pending.
pub fn delay_exit(is_recovery_pending: extern "C" fn() -> bool) {
    if let Some(mpi) = mpi_shim() {
        // SAFETY: the shim exports a function of this type, which has no further preconditions.
        unsafe { (mpi.delay_exit)(is_recovery_pending) };
    }
}

/// Makes the shim call a function after each `pthread_cancel`(3) of the MPI library.
pub fn after_cancellation(function: extern "C" fn()) {
    if let Some(mpi) = mpi_shim() {
        // SAFETY: the shim exports a function of this type, which has no further preconditions.
        unsafe { (mpi.after_cancellation)(function) };
    }
}

/// Excludes descriptors of the calling thread from the set of reserved descriptors.
///
/// The thread must have a descriptor table of its own, whose numbers concern no other thread.
pub fn separate_descriptors() {
    if let Some(shim) = runtime_shim() {
        // SAFETY: the shim exports a function of this type, which has no further preconditions.
        unsafe { (shim.separate_descriptors)() };
    }
}

/// Exclusive right of this thread to open descriptors on the runtime and MPI sides.
///
/// The kernel gives a new descriptor the lowest free number. This number is one of the program's
/// until the shim has moved the descriptor. While this value exists, no other thread of these sides
/// has such a descriptor: all open numbers below `RUNTIME_FD_BASE` belong to the program.
#[derive(Debug)]
pub struct DescriptorRight(());

/// Waits until other threads have moved their new descriptors, and acquires the right.
pub fn acquire_descriptor_right() -> DescriptorRight {
    for shim in both_shims() {
        // SAFETY: the shim exports a function of this type, which has no further preconditions.
        unsafe { (shim.hold_descriptors)() };
    }
    DescriptorRight(())
}

impl Drop for DescriptorRight {
    fn drop(&mut self) {
        for shim in both_shims().rev() {
            // SAFETY: the shim exports a function of this type, which is called once for each
            // `acquire_descriptor_right`.
            unsafe { (shim.release_descriptors)() };
        }
    }
}

/// Calls fork(2) while no other thread is moving a new descriptor ([`DescriptorRight`]).
///
/// A child that is forked during such a move would inherit the descriptor with its first number,
/// and no code of the child would close that descriptor.
///
/// # Safety
/// The requirements of fork(2) apply.
pub unsafe fn fork() -> libc::pid_t {
    let _right = acquire_descriptor_right();
    // SAFETY: the caller upholds the requirements of fork(2). Both processes release the right.
    unsafe { libc::fork() }
}
