//! Keeps from the user what Open MPI's non-blocking collectives print when a process has failed.
//!
//! Every one that was under way prints a line and a blank one on standard error. It also fails with an error, which the
//! runtime acts upon.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

/// How the line begins.
const UNWANTED: &[u8] = b"NBC_Progress: an error";

/// The line was dropped; its end comes by itself.
static DROPPED: AtomicBool = AtomicBool::new(false);

/// libc's function of this name, found at the first use.
fn next(place: &AtomicUsize, name: &CStr) -> usize {
    match place.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: dlsym(3): what comes after this library.
            let address = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
            place.store(address, Ordering::Relaxed);
            address
        }
        address => address,
    }
}

/// vfprintf(3)
///
/// # Safety
/// As libc's. A `va_list` is passed on as the pointer that it is (System V ABI for x86-64, 3.5.7).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfprintf(stream: *mut c_void, format: *const c_char, arguments: *mut c_void) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the caller's format; libc's function of this type.
    unsafe {
        if CStr::from_ptr(format).to_bytes().starts_with(UNWANTED) {
            DROPPED.store(true, Ordering::Relaxed);
            return 0;
        }
        let next: unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void) -> c_int =
            transmute(next(&NEXT, c"vfprintf"));
        next(stream, format, arguments)
    }
}

/// fputc(3)
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fputc(character: c_int, stream: *mut c_void) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if DROPPED.load(Ordering::Relaxed) && DROPPED.swap(false, Ordering::Relaxed) && character == c_int::from(b'\n') {
        return character;
    }
    // SAFETY: libc's function of this type.
    unsafe {
        let next: unsafe extern "C" fn(c_int, *mut c_void) -> c_int = transmute(next(&NEXT, c"fputc"));
        next(character, stream)
    }
}
