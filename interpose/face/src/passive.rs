//! Opens and closes libraries in a recovery without their constructors and destructors.
//!
//! The memory of the libraries is restored afterwards, so these functions would have no useful
//! effect. They might communicate, write files, or block. ld.so has no flag to suppress them, so
//! they are hidden in the dynamic section. For a library that is being opened, this is done when
//! ld.so allocates memory between mapping and initialising it (`_dl_map_object_deps` of glibc
//! allocates the order of initialisation).
#![allow(unsafe_code)]

use crate::link;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_elf::{Dynamic, LinkMap};

/// Number of libraries before others are opened; zero at all other times.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn nothing() {}

/// dlopen(3) that does not run constructors of the libraries that it loads.
///
/// # Safety
/// As dlopen(3).
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> *mut c_void {
    BEFORE.store(link::objects().count(), Ordering::Relaxed);
    // SAFETY: guaranteed by the caller.
    let handle = unsafe { crate::services::dlopen(path, flags) };
    BEFORE.store(0, Ordering::Relaxed);
    handle
}

/// Hides constructors of new libraries; called when ld.so allocates for the program side.
pub fn allocates() {
    match BEFORE.load(Ordering::Relaxed) {
        0 => {}
        before => link::objects().skip(before).for_each(hide_constructors),
    }
}

fn hide_constructors(object: &LinkMap) {
    link::set(object, Dynamic::INIT_ARRAYSZ, 0);
    link::set(
        object,
        Dynamic::INIT,
        (nothing as *const () as usize).wrapping_sub(object.base()),
    );
}

/// Prevents the destructors of a library from running at dlclose(3) and exit(3).
///
/// # Safety
/// `object` must be ld.so's record of a loaded library.
pub unsafe extern "C" fn hide_destructors(object: *const c_void) {
    // SAFETY: guaranteed by the caller.
    let object = unsafe { &*object.cast::<LinkMap>() };
    link::set(object, Dynamic::FINI_ARRAYSZ, 0);
    link::set(
        object,
        Dynamic::FINI,
        (nothing as *const () as usize).wrapping_sub(object.base()),
    );
}
