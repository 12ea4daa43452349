//! Fortran: a library of ours is preloaded in front of Open MPI's bindings, some of which look into
//! objects behind handles.
//!
//! Any program may open a library that needs those bindings later, so each of them gets it.

use crate::link::{self, Path};

/// The end of its path.
pub const LIBRARY: &[u8] = b"/libunderstudy_fortran.so";

/// Our library, in a program of Open MPI's.
pub fn find() -> Option<Path> {
    if cfg!(feature = "mpich") {
        return None;
    }
    let mut path = Path::new();
    path.push(Path::directory(link::own_path())).push(LIBRARY);
    path.is_file().then_some(path)
}
