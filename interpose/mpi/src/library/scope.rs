//! The global scope of the library's namespace: what components of the library find that do not
//! name what they need.
//!
//! A program that is linked with the library has it in its global scope, and Open MPI 4 has
//! components that rely on that. In a namespace of dlmopen(3) that scope is what the first object
//! needs, which is the shim (glibc 2.36, elf/dl-object.c: `_dl_new_object`), and ld.so cannot add
//! to it by RTLD_GLOBAL (glibc's bug 18684). So the library is added here, in ld.so's own data, if
//! these look as expected.
#![allow(unsafe_code)]

use super::{LIBRARY, SHIM};
use std::ffi::c_void;
use std::slice;
use std::sync::atomic::Ordering::Relaxed;
use understudy_abi::{LD_HEAP_SIZE, RUNTIME_LD_HEAP};

/// `struct r_scope_elem` (glibc, include/link.h): objects, in the order in which they are searched.
#[repr(C)]
struct Scope {
    objects: *const Object,
    count: u32,
}

/// A `struct link_map`, which a handle of dlopen(3) points to.
type Object = *mut c_void;

/// Where a link map has its members: no further than this, in bytes.
const LENGTH: usize = 1160;
/// Where the public head ends (link.h).
const HEAD: usize = 5 * size_of::<usize>();
/// No library has more.
const MOST: u32 = 1024;

/// Adds the library and all that it needs to the global scope. Whether that was possible.
///
/// # Safety
/// Both must be open, and nobody may be looking up symbols.
pub unsafe fn add_library() -> bool {
    // SAFETY: handed on to the caller.
    let scopes = unsafe { (of(SHIM.load(Relaxed)), of(LIBRARY.load(Relaxed))) };
    let (Some(global), Some(library)) = scopes else {
        return false;
    };
    // SAFETY: `of` has found as many.
    unsafe {
        let objects =
            |scope: *const Scope| slice::from_raw_parts((*scope).objects, (*scope).count as usize);
        let mut all = objects(global).to_vec();
        let more = objects(library)
            .iter()
            .filter(|object| !all.contains(object));
        all.extend(more.copied().collect::<Vec<_>>());
        // ld.so keeps it as long as the namespace lives.
        let all = all.leak();
        (*global).objects = all.as_ptr();
        (*global).count = all.len() as u32;
    }
    true
}

/// Whether ld.so has allocated it for this side.
fn is_of_ld_so(address: usize) -> bool {
    (RUNTIME_LD_HEAP..RUNTIME_LD_HEAP + LD_HEAP_SIZE).contains(&address)
}

/// The scope that begins with an object: the list of what it needs (`l_searchlist`).
///
/// # Safety
/// `object` must be null or a link map.
unsafe fn of(object: Object) -> Option<*mut Scope> {
    if object.is_null() {
        return None;
    }
    let places = (HEAD..LENGTH).step_by(size_of::<usize>());
    let mut scopes = places.map(|at| object.wrapping_byte_add(at).cast::<Scope>());
    let is_its_list = |scope: &*mut Scope| {
        // SAFETY: within a link map; what looks like a list is only read if it lies among ld.so's
        // other data.
        unsafe {
            let (list, count) = ((**scope).objects, (**scope).count);
            let is_list =
                (1..MOST).contains(&count) && is_of_ld_so(list.addr()) && list.is_aligned();
            let objects = || slice::from_raw_parts(list, count as usize).iter();
            is_list && *list == object && objects().all(|it| is_of_ld_so(it.addr()))
        }
    };
    scopes.find(is_its_list)
}
