//! Fortran: a library of ours is preloaded in front of Open MPI's bindings, some of which look into objects behind handles.

use crate::link::{self, Path};

const LIBRARY: &[u8] = b"/libunderstudy_fortran.so";

/// Our library, if this process needs those bindings or may load them later.
pub fn find(is_late: bool) -> Option<Path> {
    if cfg!(feature = "mpich") || !(is_late || link::objects().any(link::LinkMap::needs_fortran_bindings)) {
        return None;
    }
    let mut path = Path::new();
    path.push(Path::directory(link::own_path())).push(LIBRARY);
    path.is_file().then_some(path)
}
