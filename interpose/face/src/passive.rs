//! Libraries that are opened or closed again in a recovery, without their constructors and
//! destructors.
//!
//! Their memory is put back afterwards, so these would do nothing of use; but they might
//! communicate, write files, or hang. ld.so has no flag for it. It finds them through the dynamic
//! section, in which they are hidden: of a library that is being opened when ld.so allocates, as it
//! does between mapping and initialising it (`_dl_map_object_deps` of glibc allocates the order of
//! initialisation).
#![allow(unsafe_code)]

use crate::link;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_elf::{Dynamic, LinkMap};

/// While libraries are opened: how many were there before.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn nothing() {}

/// dlopen(3), but constructors of what it loads are not run.
///
/// # Safety
/// As dlopen(3).
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> *mut c_void {
    BEFORE.store(link::objects().count(), Ordering::Relaxed);
    // SAFETY: handed on to the caller.
    let handle = unsafe { crate::services::dlopen(path, flags) };
    BEFORE.store(0, Ordering::Relaxed);
    handle
}

/// ld.so allocates memory for the program's side.
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

/// Keeps the destructors of this library from running when it is closed, or at exit(3).
///
/// # Safety
/// It must be ld.so's record of a loaded library.
pub unsafe extern "C" fn hide_destructors(object: *const c_void) {
    // SAFETY: handed on to the caller.
    let object = unsafe { &*object.cast::<LinkMap>() };
    link::set(object, Dynamic::FINI_ARRAYSZ, 0);
    link::set(
        object,
        Dynamic::FINI,
        (nothing as *const () as usize).wrapping_sub(object.base()),
    );
}
