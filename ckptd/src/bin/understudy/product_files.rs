//! Understudy's files, which belong together in one directory.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use rustix::process::geteuid;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use understudy_formats::private_directories::PrivateDirectory;
use xxhash_rust::xxh3::xxh3_64;

pub const LIBRARY: &str = "libunderstudy.so";
/// Files that must be beside the library.
const COMPANIONS: [&str; 3] = ["libunderstudy_shim.so", "libunderstudy_runtime.so", "ckptd"];

/// Returns the path of the named library, or of that beside this program.
///
/// The error names the missing file.
pub fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    let path = match named {
        Some(path) => std::path::absolute(path)
            .map_err(|error| format!("--library {}: {error}", path.display()))?,
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

/// True if ld.so would preload the library.
///
/// LD_PRELOAD is split at blanks and colons, and has no quoting (ld.so(8)).
pub fn can_be_preloaded(library: &Path) -> bool {
    !library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
}

/// Remedy for a library that cannot be preloaded.
pub const UNPRELOADABLE: &str = "Install understudy in a directory without blanks and colons in \
    its path, or make a symbolic link to it, on every host, and name the library by a path through \
    the link with --library.";

/// Returns a path by which ld.so preloads the library, if necessary through a link.
///
/// The link is equal for every job, since a job that restarts from disk finds its libraries by
/// their paths.
pub fn preloadable(library: &Path) -> Result<PathBuf, String> {
    if can_be_preloaded(library) {
        return Ok(library.to_owned());
    }
    let cannot = |why: io::Error| {
        format!(
            "{}: ld.so cannot preload this path ({why}). {UNPRELOADABLE}",
            library.display()
        )
    };
    let (Some(directory), Some(name)) = (library.parent(), library.file_name()) else {
        return Err(cannot(ErrorKind::InvalidFilename.into()));
    };
    let link = link_to(directory).map_err(cannot)?.join(name);
    match can_be_preloaded(&link) {
        true => Ok(link),
        false => Err(cannot(ErrorKind::InvalidFilename.into())),
    }
}

/// Makes a symbolic link to `directory`, in a directory that only this user can enter.
fn link_to(directory: &Path) -> io::Result<PathBuf> {
    let private = PathBuf::from(format!("/tmp/understudy-{}", geteuid().as_raw()));
    PrivateDirectory::make(&private)?;
    let link = private.join(format!(
        "layer-{:016x}",
        xxh3_64(directory.as_os_str().as_bytes())
    ));
    if !fs::read_link(&link).is_ok_and(|target| target == directory) {
        let new = link.with_extension(std::process::id().to_string());
        symlink(directory, &new)?;
        fs::rename(&new, &link)?;
    }
    Ok(link)
}

/// True if the library exports a procedure of this name.
pub fn exports(library: &Path, name: &str) -> bool {
    let bytes = std::fs::read(library).unwrap_or_default();
    let file = ElfFile64::<Endianness>::parse(&*bytes);
    file.is_ok_and(|file| {
        file.dynamic_symbols()
            .any(|symbol| symbol.name() == Ok(name))
    })
}

/// Returns the path of a file that belongs beside the library.
pub fn companion(library: &Path, name: &str) -> PathBuf {
    library.with_file_name(name)
}

/// Finds the library that was built with this program, or installed in PREFIX/lib/understudy.
///
/// The program is then in PREFIX/bin.
fn beside_this_program() -> Result<PathBuf, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("this program cannot find itself: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = [
        directory.join(LIBRARY),
        directory.join("../lib/understudy").join(LIBRARY),
    ];
    let found = candidates.iter().find(|candidate| candidate.is_file());
    found
        .map(|candidate| {
            candidate
                .canonicalize()
                .unwrap_or_else(|_| candidate.clone())
        })
        .ok_or_else(|| {
            format!(
                "{LIBRARY} is neither beside {} nor in ../lib/understudy. Install all of \
                 understudy, or name the library with --library.",
                program.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_preloaded_has_another_name() {
        let plain = Path::new("/usr/lib/understudy/libunderstudy.so");
        assert_eq!(preloadable(plain).as_deref(), Ok(plain));
        let root = tempfile::tempdir().expect("there is room for temporary files");
        for name in ["a b", "a:b"] {
            let directory = root.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(LIBRARY), name).unwrap();
            for _ in 0..2 {
                let path = preloadable(&directory.join(LIBRARY)).expect("a link is made");
                assert!(can_be_preloaded(&path), "{}", path.display());
                assert_eq!(fs::read(&path).unwrap(), name.as_bytes());
            }
            fs::remove_file(link_to(&directory).unwrap()).unwrap();
        }
        let why = preloadable(&root.path().join("my library.so")).expect_err("the name stays");
        assert!(why.contains("--library"), "{why}");
        fs::remove_file(link_to(root.path()).unwrap()).unwrap();
    }
}
