//! Functions of libraries that were loaded after the MPI library.
//!
//! A component of the MPI library may have loaded them, under any file name: packages of Python
//! rename the libraries that they contain. (The caller's address does not lead to the library,
//! because components call such functions last, by a jump.)
#![allow(unsafe_code)]

use crate::scope::dlopen;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

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

/// Returns the address of the function of this name that is not `own`, or zero.
///
/// `cache` contains the address, or zero before it was found.
pub fn loaded_function(cache: &AtomicUsize, name: &CStr, own: *const c_void) -> usize {
    if cache.load(Relaxed) == 0 {
        cache.store(find_function(name, own), Relaxed);
    }
    cache.load(Relaxed)
}

/// Searches the libraries of this namespace, in the order in which they were loaded.
#[cold]
fn find_function(name: &CStr, own: *const c_void) -> usize {
    const RTLD_DL_LINKMAP: c_int = 2;
    let mut object = null();
    // SAFETY: dladdr1(3) writes to both variables. The shim is the first object of its namespace,
    // whose list is linked by `next`, and ld.so keeps a library while its user calls it.
    unsafe {
        dladdr1(own, &mut [0; 4], &mut object, RTLD_DL_LINKMAP);
        while let Some(link_map) = object.as_ref() {
            object = link_map.next;
            let address = function_in(link_map, name);
            if !address.is_null() && !core::ptr::eq(address, own) {
                return address as usize;
            }
        }
    }
    0
}

/// Returns a function of a library and of those that it needs, or null.
///
/// # Safety
/// The name of the loaded library must be valid.
unsafe fn function_in(link_map: &LinkMap, name: &CStr) -> *const c_void {
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    // SAFETY: the caller guarantees a valid name; dlopen(3) loads nothing.
    unsafe {
        let library = dlopen(link_map.name, RTLD_LAZY | RTLD_NOLOAD);
        if library.is_null() {
            return null();
        }
        let address = dlsym(library, name.as_ptr());
        dlclose(library);
        address
    }
}
