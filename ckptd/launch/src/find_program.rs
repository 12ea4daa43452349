//! Search for programs in the directories of PATH.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the file of a program, found as by execvp(3).
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        return Some(Path::new(name).to_owned()).filter(is_program);
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(is_program)
}
