//! understudy's library with Fortran procedures, preloaded in front of Open MPI's bindings.
//!
//! Several of Open MPI's Fortran procedures read the objects behind handles, which virtual handles
//! do not have. understudy's library replaces these procedures. Any program may open a library in
//! Fortran later, so the library is preloaded into every program of Open MPI.

use crate::link::{self, Path};

/// End of the library's path.
pub const LIBRARY: &[u8] = b"/libunderstudy_fortran.so";

/// Returns the path of the library, for programs of Open MPI.
///
/// `None` for programs of another MPI library, or if the file is missing.
pub fn find() -> Option<Path> {
    if cfg!(feature = "mpich") {
        return None;
    }
    let mut path = Path::new();
    path.push(Path::directory(link::own_path())).push(LIBRARY);
    path.is_file().then_some(path)
}
