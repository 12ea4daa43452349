//! Global scope of the library's namespace, for components that do not name their dependencies.
//!
//! Open MPI 4 has components that use symbols of libmpi without naming libmpi as a dependency. In a
//! program that is linked with libmpi, these components find the symbols in the program's global
//! scope. In a namespace of dlmopen(3), the global scope consists of the namespace's first object,
//! here the shim, and the dependencies of that object (glibc 2.36, elf/dl-object.c:
//! `_dl_new_object`). The flag RTLD_GLOBAL does not extend this scope (glibc's bug 18684). This
//! module therefore adds libmpi to the scope by changing ld.so's own data, if these data have the
//! expected form.
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

/// Pointer to a `struct link_map`, which is also a handle of dlopen(3).
type Object = *mut c_void;

/// Upper bound of the offsets of a link map's members, in bytes.
const LINK_MAP_BOUND: usize = 1160;
/// Size of the public head of a link map (link.h), in bytes.
const PUBLIC_HEAD_SIZE: usize = 5 * size_of::<usize>();
/// Upper bound of the number of objects in a scope.
const MAX_OBJECTS: u32 = 1024;

/// Adds the library and its dependencies to the global scope.
///
/// Returns false if that is impossible.
///
/// # Safety
/// The library and the shim must be open, and no thread may be looking up symbols.
pub unsafe fn add_library() -> bool {
    // SAFETY: the caller guarantees that both libraries are open.
    let scopes = unsafe {
        (
            scope_of(SHIM.load(Relaxed)),
            scope_of(LIBRARY.load(Relaxed)),
        )
    };
    let (Some(global), Some(library)) = scopes else {
        return false;
    };
    // SAFETY: `scope_of` has checked that each scope has this number of objects; no other thread
    // looks up symbols, as the caller guarantees.
    unsafe {
        let objects =
            |scope: *const Scope| slice::from_raw_parts((*scope).objects, (*scope).count as usize);
        let mut all = objects(global).to_vec();
        let more = objects(library)
            .iter()
            .filter(|object| !all.contains(object));
        all.extend(more.copied().collect::<Vec<_>>());
        // ld.so keeps a pointer to the list as long as the namespace exists.
        let all = all.leak();
        (*global).objects = all.as_ptr();
        (*global).count = all.len() as u32;
    }
    true
}

/// True if the address is in ld.so's heap for the runtime and MPI sides.
fn is_of_ld_so(address: usize) -> bool {
    (RUNTIME_LD_HEAP..RUNTIME_LD_HEAP + LD_HEAP_SIZE).contains(&address)
}

/// Returns an object's own scope (`l_searchlist`): the object, followed by its dependencies.
///
/// The offset of this member of `struct link_map` differs between versions of glibc. The member is
/// found by its content: a count, and a pointer to that number of link maps, the first of which is
/// the object's.
///
/// # Safety
/// `object` must be null or a link map.
unsafe fn scope_of(object: Object) -> Option<*mut Scope> {
    if object.is_null() {
        return None;
    }
    let offsets = (PUBLIC_HEAD_SIZE..LINK_MAP_BOUND).step_by(size_of::<usize>());
    let mut candidates = offsets.map(|offset| object.wrapping_byte_add(offset).cast::<Scope>());
    let is_search_list = |scope: &*mut Scope| {
        // SAFETY: the candidate lies within a link map. The list to which the candidate points is
        // only read if the list is in ld.so's heap.
        unsafe {
            let (list, count) = ((**scope).objects, (**scope).count);
            let is_list =
                (1..MAX_OBJECTS).contains(&count) && is_of_ld_so(list.addr()) && list.is_aligned();
            let objects = || slice::from_raw_parts(list, count as usize).iter();
            is_list && *list == object && objects().all(|object| is_of_ld_so(object.addr()))
        }
    };
    candidates.find(is_search_list)
}
