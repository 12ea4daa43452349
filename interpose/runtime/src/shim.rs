//! What the shim does for the runtime: functions of the first library of this namespace.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

struct Shim {
    hold_frees: unsafe extern "C" fn(),
    release_frees: unsafe extern "C" fn(bool),
    mark_waits: unsafe extern "C" fn(*const AtomicU8, u8),
    hold_descriptors: unsafe extern "C" fn(),
    release_descriptors: unsafe extern "C" fn(),
    note_newcomers: unsafe extern "C" fn(),
}

/// `None` in unit tests, which have no shim.
fn shim() -> Option<&'static Shim> {
    static SHIM: OnceLock<Option<Shim>> = OnceLock::new();
    // SAFETY: dlsym(3) in this namespace; the shim exports functions of these types.
    SHIM.get_or_init(|| unsafe {
        let find = |name: &CStr| {
            let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            (!found.is_null()).then_some(found)
        };
        Some(Shim {
            hold_frees: transmute::<*mut c_void, unsafe extern "C" fn()>(find(c"understudy_shim_hold_frees")?),
            release_frees: transmute::<*mut c_void, unsafe extern "C" fn(bool)>(find(
                c"understudy_shim_release_frees",
            )?),
            mark_waits: transmute::<*mut c_void, unsafe extern "C" fn(*const AtomicU8, u8)>(find(
                c"understudy_shim_mark_waits",
            )?),
            hold_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_hold_descriptors",
            )?),
            release_descriptors: transmute::<*mut c_void, unsafe extern "C" fn()>(find(
                c"understudy_shim_release_descriptors",
            )?),
            note_newcomers: transmute::<*mut c_void, unsafe extern "C" fn()>(find(c"understudy_shim_note_newcomers")?),
        })
    })
    .as_ref()
}

/// Holds back what the library frees from now on.
pub fn hold_frees() {
    if let Some(shim) = shim() {
        // SAFETY: the shim's function.
        unsafe { (shim.hold_frees)() };
    }
}

/// Ends [`hold_frees`]; `free`: what was held back is freed, otherwise it is kept for ever.
pub fn release_frees(free: bool) {
    if let Some(shim) = shim() {
        // SAFETY: the shim's function.
        unsafe { (shim.release_frees)(free) };
    }
}

/// Lets waits set `bit` of `byte`, by which they tell one call of MPI from the next.
pub fn mark_waits(byte: &'static AtomicU8, bit: u8) {
    if let Some(shim) = shim() {
        // SAFETY: the shim's function; the byte lives as long as the process.
        unsafe { (shim.mark_waits)(byte, bit) };
    }
}

/// A process joins the job, or this one does.
pub fn note_newcomers() {
    if let Some(shim) = shim() {
        // SAFETY: the shim's function.
        unsafe { (shim.note_newcomers)() };
    }
}

/// As long as it lives, this thread is the only one of the runtime side that opens anything: what is below the runtime
/// side's descriptors is the program's.
#[derive(Debug)]
pub struct Descriptors(());

/// Waits until the others have lifted theirs.
pub fn hold_descriptors() -> Descriptors {
    if let Some(shim) = shim() {
        // SAFETY: the shim's function.
        unsafe { (shim.hold_descriptors)() };
    }
    Descriptors(())
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(shim) = shim() {
            // SAFETY: the shim's function, once for each call of the other.
            unsafe { (shim.release_descriptors)() };
        }
    }
}

/// fork(2) while no other thread has a descriptor that it has not lifted yet: the child has none of these.
///
/// # Safety
/// As fork(2).
pub unsafe fn fork() -> libc::pid_t {
    let _held = hold_descriptors();
    // SAFETY: handed on to the caller. Both processes end what is held.
    unsafe { libc::fork() }
}
