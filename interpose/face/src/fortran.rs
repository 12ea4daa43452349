//! Library with Fortran's procedures, preloaded in front of Open MPI's bindings.
//!
//! Several bindings of Open MPI access objects behind handles. Any program may later open a library
//! that needs the bindings, so every program of Open MPI gets this library.

use crate::link::{self, Path};

/// End of the library's path.
pub const LIBRARY: &[u8] = b"/libunderstudy_fortran.so";

/// Returns the path of the library, for programs of Open MPI.
pub fn find() -> Option<Path> {
    if cfg!(feature = "mpich") {
        return None;
    }
    let mut path = Path::new();
    path.push(Path::directory(link::own_path())).push(LIBRARY);
    path.is_file().then_some(path)
}
