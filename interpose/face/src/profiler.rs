//! Profiling libraries (PMPI): a library that the program is linked with before libmpi, and that defines some of MPI's
//! names to wrap them. Being preloaded, the face would come before it in the loader's search, so the second execution
//! preloads it too, in front.
#![allow(unsafe_code)]

use crate::link::{self, OUR_SONAME, Path};
use crate::sys;
use crate::thunks::{PROC_COUNT, SLOT_NAMES};
use core::ffi::{c_char, c_int, c_void};

/// `Dl_info` of dladdr(3).
#[repr(C)]
struct Place {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, place: *mut Place) -> c_int;
}

/// The file of the first library after this one that defines a procedure of MPI.
pub fn find() -> Option<Path> {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    let is_library = |object: &link::LinkMap| !object.name().is_empty() && object.l_addr != link::own_base();
    if !link::objects().any(|object| is_library(object) && object.needs(OUR_SONAME)) {
        return None;
    }
    // SAFETY: dlsym(3); not a tail call, since RTLD_NEXT goes by the caller.
    let next = |name: &core::ffi::CStr| core::hint::black_box(unsafe { dlsym(RTLD_NEXT, name.as_ptr()) });
    let found = SLOT_NAMES[..PROC_COUNT]
        .iter()
        .map(|name| next(name))
        .find(|found| !found.is_null())?;
    let mut place = Place {
        file: core::ptr::null(),
        base: core::ptr::null_mut(),
        name: core::ptr::null(),
        address: core::ptr::null_mut(),
    };
    // SAFETY: dladdr(3) fills the structure; ld.so keeps the name as long as the library.
    let file = unsafe {
        if dladdr(found, &mut place) == 0 {
            return None;
        }
        sys::bytes(place.file)
    };
    // LD_PRELOAD cannot say such a name.
    if file.iter().any(|byte| b": ".contains(byte)) {
        return None;
    }
    let mut path = Path::new();
    path.push(file);
    Some(path)
}
