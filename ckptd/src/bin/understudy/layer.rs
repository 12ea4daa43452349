//! The layer's files, which belong together in one directory.

use std::path::{Path, PathBuf};

/// What is preloaded.
pub const LIBRARY: &str = "libunderstudy.so";
/// What must lie beside it.
const COMPANIONS: [&str; 3] = ["libunderstudy_shim.so", "libunderstudy_runtime.so", "ckptd"];

/// The library: the one that was named, or the one that was built or installed with this program. The error says what is missing.
pub fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    let path = match named {
        Some(path) => std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?,
        None => beside_this_program()?,
    };
    if !path.is_file() {
        return Err(format!(
            "{}: there is no such library. Name {LIBRARY} with --library.",
            path.display()
        ));
    }
    for companion in COMPANIONS {
        if !self::companion(&path, companion).is_file() {
            return Err(format!(
                "{companion} is not beside {}. Keep {LIBRARY}, {} together in one directory.",
                path.display(),
                COMPANIONS.join(", ")
            ));
        }
    }
    Ok(path)
}

/// A program that belongs to the library.
pub fn companion(library: &Path, name: &str) -> PathBuf {
    library.with_file_name(name)
}

/// PREFIX/bin and PREFIX/lib/understudy belong together, and so does what was built together.
fn beside_this_program() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places = [
        directory.join(LIBRARY),
        directory.join("../lib/understudy").join(LIBRARY),
    ];
    let found = places.iter().find(|place| place.is_file());
    found
        .map(|place| place.canonicalize().unwrap_or_else(|_| place.clone()))
        .ok_or_else(|| {
            format!(
                "{LIBRARY} is neither beside {} nor in ../lib/understudy. Install all of understudy, or name the library with \
                 --library.",
                program.display()
            )
        })
}
