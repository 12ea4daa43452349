//! Profiling libraries (PMPI), which define some of MPI's procedures to wrap them.
//!
//! A program is linked with such a library before libmpi. The library wraps procedures in C or in
//! Fortran. The preload library would precede the profiling library in ld.so's search order. The
//! second execution therefore also preloads the profiling library, before the preload library.
#![allow(unsafe_code)]

use crate::link::{self, OUR_SONAME, Path};
use crate::thunks::{PROC_COUNT, SLOT_NAMES};
use core::ffi::{CStr, c_char, c_void};
use understudy_elf::LinkMap;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Capacity for the name of a procedure, the underscore and the NUL.
const MAX_NAME: usize = 64;

/// Name of a procedure as gfortran mangles it: MPI_Send becomes mpi_send_.
struct FortranName([u8; MAX_NAME]);

impl FortranName {
    fn of(name: &CStr) -> Option<FortranName> {
        let mut text = [0; MAX_NAME];
        let name = name.to_bytes();
        let (lower, rest) = text.split_at_mut_checked(name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let [end, 0, ..] = rest else { return None };
        *end = b'_';
        Some(FortranName(text))
    }
}

impl core::ops::Deref for FortranName {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Returns the file of the profiling library.
///
/// The profiling library is the first library that defines a procedure of MPI and follows this
/// library in the search order, without being a library with language bindings. `None` if no
/// library of the program needs libmpi, or if LD_PRELOAD cannot contain the file's name.
pub fn find() -> Option<Path> {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    let is_library =
        |object: &LinkMap| !object.name().is_empty() && object.base() != link::own_base();
    if !link::objects().any(|object| is_library(object) && object.needs(OUR_SONAME)) {
        return None;
    }
    // SAFETY: dlsym(3); not a tail call, because RTLD_NEXT depends on the caller's address.
    let next = |name: &CStr| core::hint::black_box(unsafe { dlsym(RTLD_NEXT, name.as_ptr()) });
    // A library with Fortran bindings may define procedures in C, too.
    let wraps = |name: &CStr| file_of(next(name)).filter(|file| !is_binding(file));
    let names = || SLOT_NAMES[..PROC_COUNT].iter();
    let of_fortran = || names().find_map(|name| wraps(&FortranName::of(name)?));
    let has_fortran = link::objects().any(link::needs_fortran_bindings);
    let file = names()
        .find_map(|name| wraps(name))
        .or_else(|| has_fortran.then(of_fortran)?)?;
    // LD_PRELOAD cannot contain a name with a separator.
    if file.iter().any(|byte| b": ".contains(byte)) {
        return None;
    }
    let mut path = Path::new();
    path.push(file);
    Some(path)
}

/// Returns true if an MPI library follows this library in the search order.
///
/// Such a library defines `PMPI_Init`. Profiling libraries define names with `MPI_` only.
pub fn is_library_behind() -> bool {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: dlsym(3); not a tail call, because RTLD_NEXT depends on the caller's address.
    !core::hint::black_box(unsafe { dlsym(RTLD_NEXT, c"PMPI_Init".as_ptr()) }).is_null()
}

/// Returns the file that contains an address.
fn file_of(found: *mut c_void) -> Option<&'static [u8]> {
    let file = link::file_of(found as usize);
    (!file.is_empty()).then_some(file)
}

/// Returns true for the libraries with the language bindings of Open MPI and MPICH.
///
/// Such libraries define procedures, but are no profiling libraries.
fn is_binding(file: &[u8]) -> bool {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    [&b"libmpi_"[..], b"libmpifort.", b"libmpichfort."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
