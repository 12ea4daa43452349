//! Libraries that a program needs.
//!
//! The dynamic loader lists the libraries (ld.so(8), `--list`). So run paths, LD_LIBRARY_PATH and
//! the system's cache are applied as for a program that is started in this environment.

use crate::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Dynamic loader of the x86-64 ABI.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A library that a program or library needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    pub name: String,
    /// File of the library; `None` if it was not found.
    pub path: Option<PathBuf>,
}

/// Returns all direct and indirect libraries of a program or library.
pub fn linked_libraries(path: &Path) -> Result<Vec<Library>, Error> {
    let unlisted = |why: String| Error::Unlisted {
        path: path.to_owned(),
        why,
    };
    let path = path
        .canonicalize()
        .map_err(|error| unlisted(error.to_string()))?;
    let mut loader = Command::new(LOADER);
    // The loader is not a rank, and a library that is preloaded here need not be preloaded into the
    // ranks.
    loader.env_clear();
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        loader.env("LD_LIBRARY_PATH", path);
    }
    let loader = loader.arg("--list").arg(&path).stdin(Stdio::null());
    let what = format!("the dynamic loader {LOADER}");
    let output = loader.output().map_err(Error::system(what))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(unlisted(why));
    }
    Ok(parse_listing(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines such as `libc.so.6 => /lib/libc.so.6 (0x00007f…)`.
fn parse_listing(listing: &str) -> Vec<Library> {
    let lines = listing.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest
            .rsplit_once(" (0x")
            .map(|(path, _)| PathBuf::from(path));
        Some(Library {
            name: name.to_owned(),
            path,
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let listing = "\tlinux-vdso.so.1 (0x7ff)\n\tlibmpi.so.40 => /a dir/libmpi.so.40 \
            (0x00007f)\n\tlibx.so => not found\n";
        let found = parse_listing(listing);
        let library = |name: &str, path: Option<&str>| Library {
            name: name.to_owned(),
            path: path.map(PathBuf::from),
        };
        assert_eq!(
            found,
            [
                library("libmpi.so.40", Some("/a dir/libmpi.so.40")),
                library("libx.so", None)
            ]
        );
    }
}
