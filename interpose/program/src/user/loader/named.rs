//! Which procedures of MPI the program's own code names.

use super::list::link_maps;
use std::path::Path;

/// Whether the program or a library that is loaded, but none of MPI itself, names a procedure (in C
/// or Fortran), whose name in lower case begins so. To be called while the program does not run.
pub fn names(start: &str) -> bool {
    let is_it = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix(b"p")
            .unwrap_or(&name)
            .starts_with(start.as_bytes())
    };
    link_maps().any(|map| !is_of_mpi(map.name()) && map.imports().any(is_it))
}

/// The library, its bindings for other languages, and ours.
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
