//! Profiling libraries (PMPI): a library that the program is linked with before libmpi, and that
//! defines some of MPI's names to wrap them, in C or in Fortran. Being preloaded, the face would
//! come before it in the loader's search, so the second execution preloads it too, in front.
#![allow(unsafe_code)]

use crate::link::{self, OUR_SONAME, Path};
use crate::thunks::{PROC_COUNT, SLOT_NAMES};
use core::ffi::{CStr, c_char, c_void};
use understudy_elf::LinkMap;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The longest name of a procedure, with what follows.
const MOST: usize = 64;

/// A procedure's name as gfortran calls it.
struct Fortran([u8; MOST]);

impl Fortran {
    fn of(name: &CStr) -> Option<Fortran> {
        let mut text = [0; MOST];
        let name = name.to_bytes();
        let (lower, rest) = text.split_at_mut_checked(name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let [end, 0, ..] = rest else { return None };
        *end = b'_';
        Some(Fortran(text))
    }
}

impl core::ops::Deref for Fortran {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// The file of the first library after this one that defines a procedure of MPI.
pub fn find() -> Option<Path> {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    let is_library =
        |object: &LinkMap| !object.name().is_empty() && object.base() != link::own_base();
    if !link::objects().any(|object| is_library(object) && object.needs(OUR_SONAME)) {
        return None;
    }
    // SAFETY: dlsym(3); not a tail call, since RTLD_NEXT goes by the caller.
    let next = |name: &CStr| core::hint::black_box(unsafe { dlsym(RTLD_NEXT, name.as_ptr()) });
    // What has the bindings of a library may have procedures in C, too.
    let wraps = |name: &CStr| file_of(next(name)).filter(|file| !is_binding(file));
    let names = || SLOT_NAMES[..PROC_COUNT].iter();
    let of_fortran = || names().find_map(|name| wraps(&Fortran::of(name)?));
    let has_fortran = link::objects().any(link::needs_fortran_bindings);
    let file = names()
        .find_map(|name| wraps(name))
        .or_else(|| has_fortran.then(of_fortran)?)?;
    // LD_PRELOAD cannot say such a name.
    if file.iter().any(|byte| b": ".contains(byte)) {
        return None;
    }
    let mut path = Path::new();
    path.push(file);
    Some(path)
}

/// Returns true if a library after this one has MPI's procedures, whatever its name is.
///
/// Profilers wrap procedures under their first names only; `PMPI_` is the library's own.
pub fn is_library_behind() -> bool {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: dlsym(3); not a tail call, since RTLD_NEXT goes by the caller.
    !core::hint::black_box(unsafe { dlsym(RTLD_NEXT, c"PMPI_Init".as_ptr()) }).is_null()
}

/// The file in which something is.
fn file_of(found: *mut c_void) -> Option<&'static [u8]> {
    let file = link::file_of(found as usize);
    (!file.is_empty()).then_some(file)
}

/// Whether a file has the bindings of Open MPI or MPICH, which wrap nothing.
fn is_binding(file: &[u8]) -> bool {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    [&b"libmpi_"[..], b"libmpifort.", b"libmpichfort."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
