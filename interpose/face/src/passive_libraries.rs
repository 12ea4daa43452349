//! Opens and closes libraries in a recovery without running constructors or destructors.
//!
//! The memory of the libraries is restored afterwards, so constructors and destructors would have
//! no useful effect, but might communicate, write files, or block. ld.so has no flag to suppress
//! them. Constructors and destructors are therefore hidden: their entries in the library's dynamic
//! section are overwritten before ld.so reads the entries. For a library that is being opened, the
//! entries must be overwritten within dlopen(3), between the mapping and the initialisation of the
//! library. At that time ld.so allocates the array with the order of initialisation
//! (`_dl_map_object_deps` of glibc), and thereby calls [`hide_new_constructors`].
#![allow(unsafe_code)]

use crate::link;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_elf::{Dynamic, LinkMap};

/// Number of objects that were loaded before [`open`] was called; zero outside of [`open`].
static PREVIOUS_OBJECT_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Function to which the overwritten entries DT_INIT and DT_FINI refer.
extern "C" fn nothing() {}

/// dlopen(3) that does not run constructors of the libraries that it loads.
///
/// # Safety
/// The requirements of dlopen(3) apply.
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> *mut c_void {
    PREVIOUS_OBJECT_COUNT.store(link::objects().count(), Ordering::Relaxed);
    // SAFETY: the caller meets the requirements of dlopen(3).
    let handle = unsafe { crate::program_namespace::dlopen(path, flags) };
    PREVIOUS_OBJECT_COUNT.store(0, Ordering::Relaxed);
    handle
}

/// Hides constructors of new libraries; called when ld.so allocates for the program side.
pub fn hide_new_constructors() {
    match PREVIOUS_OBJECT_COUNT.load(Ordering::Relaxed) {
        0 => {}
        count => link::objects().skip(count).for_each(hide_constructors),
    }
}

fn hide_constructors(object: &LinkMap) {
    link::set_dynamic_entry(object, Dynamic::INIT_ARRAYSZ, 0);
    link::set_dynamic_entry(
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
    // SAFETY: the caller guarantees that `object` is ld.so's record of a loaded library.
    let object = unsafe { &*object.cast::<LinkMap>() };
    link::set_dynamic_entry(object, Dynamic::FINI_ARRAYSZ, 0);
    link::set_dynamic_entry(
        object,
        Dynamic::FINI,
        (nothing as *const () as usize).wrapping_sub(object.base()),
    );
}
