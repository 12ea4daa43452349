//! Temporary directories of tests.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Makes a directory that is removed when its value is dropped.
///
/// # Panics
/// Panics if the directory cannot be made.
pub(crate) fn directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("ffi-test-").tempdir();
    directory.expect("there is room for temporary files")
}

/// Makes a directory that exists until this process exits.
///
/// # Panics
/// Panics if the directory cannot be made.
pub fn lasting_directory() -> PathBuf {
    static LASTING: Mutex<Vec<tempfile::TempDir>> = Mutex::new(Vec::new());
    extern "C" fn remove() {
        LASTING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
    let mut lasting = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    if lasting.is_empty() {
        at_exit(remove);
    }
    let directory = directory();
    let path = directory.path().to_owned();
    lasting.push(directory);
    path
}

/// Registers a function to be called when this process exits, since statics are not dropped.
#[allow(unsafe_code)]
fn at_exit(function: extern "C" fn()) {
    // SAFETY: exit(3) calls `function`, which has no parameters and belongs to this executable;
    // executables stay loaded until the process has exited.
    unsafe { libc::atexit(function) };
}
