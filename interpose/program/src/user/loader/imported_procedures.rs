//! MPI procedures that the program's own code refers to.

use super::loaded_libraries::link_maps;
use std::path::Path;

/// True if the program refers to an MPI procedure whose name starts with `start`.
///
/// Considers the program and its loaded libraries except MPI's own. `start` is in lower case and
/// matches names of C and Fortran in any case, with and without the `P` of the profiling interface.
/// Must be called while the program does not run.
pub fn imports_procedure(start: &str) -> bool {
    let matches = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix(b"p")
            .unwrap_or(&name)
            .starts_with(start.as_bytes())
    };
    link_maps().any(|map| !is_of_mpi(map.name()) && map.imports().any(matches))
}

/// True for the MPI library, its bindings for other languages, and understudy's libraries.
fn is_of_mpi(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path);
    let file = Path::new(path.as_ref())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    ["libmpi", "libunderstudy"]
        .iter()
        .any(|start| file.starts_with(start))
}
