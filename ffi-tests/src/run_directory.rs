//! Directory in which the processes of one run of the tests share results.
//!
//! Each test has a process of its own. `ffi-tests/run` makes the directory and removes it at the
//! end. Without that script, each process has a directory of its own.

use crate::temporary_directories::lasting_directory;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the directory of this run.
pub fn path() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let given = std::env::var_os("FFI_TESTS_RUN").map(PathBuf::from);
        given.unwrap_or_else(lasting_directory)
    })
}

/// Returns a subdirectory that `make` fills; only the first caller of a run calls `make`.
///
/// # Panics
/// Panics if the directory cannot be made.
pub fn filled_once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let directory = path().join(name);
    std::fs::create_dir_all(&directory).expect("the run's directory is writable");
    let (lock, filled) = (directory.join(".lock"), directory.join(".filled"));
    // Closing the file releases the lock.
    let lock = File::create(lock).expect("the directory is writable");
    lock.lock().expect("files can be locked");
    if !filled.exists() {
        make(&directory);
        std::fs::write(filled, "").expect("the directory is writable");
    }
    directory
}
