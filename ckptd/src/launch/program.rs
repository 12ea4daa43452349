//! Which MPI library a program is linked with, and where libraries are.
//!
//! Asked of the dynamic loader itself (ld.so(8), `--list`): run paths, LD_LIBRARY_PATH and the system's cache count as they will when the
//! program is started from this environment.

use super::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The loader of the x86-64 ABI.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A kind of MPI library, as far as its process manager goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Open MPI 4 and 5: PMIx.
    OpenMpi,
    /// MPICH and what has its ABI: PMI-1.
    Mpich,
    /// MPICH under the name that Debian gives its library.
    Debian,
    /// MPICH's library of the standard ABI (MPI 5.0, chapter 20): PMI-1.
    Standard,
}

impl Kind {
    /// By the start of its soname.
    const NAMES: [(&'static str, Kind); 4] = [
        ("libmpi.so.40", Kind::OpenMpi),
        ("libmpi.so.12", Kind::Mpich),
        ("libmpich.so.12", Kind::Debian),
        ("libmpi_abi.so.1", Kind::Standard),
    ];

    /// The sonames of all kinds.
    pub fn sonames() -> impl Iterator<Item = &'static str> {
        Kind::NAMES.iter().map(|(name, _)| *name)
    }

    /// Of a library with this soname, if it is one that the layer stands in for.
    pub fn of(library: &str) -> Option<Kind> {
        let found = Kind::NAMES.iter().find(|(name, _)| library == *name);
        found.map(|&(_, kind)| kind)
    }

    /// The layer's library that stands in for it. A program that is linked with another one than that is given the right one by itself;
    /// one that opens its library late has to have it from the start.
    pub fn layer(self) -> &'static str {
        match self {
            Kind::OpenMpi => "libunderstudy.so",
            Kind::Mpich => "libunderstudy_mpich.so",
            Kind::Debian => "libunderstudy_debian.so",
            Kind::Standard => "libunderstudy_standard.so",
        }
    }
}

/// The MPI library of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mpi {
    pub kind: Kind,
    pub library: PathBuf,
}

impl Mpi {
    /// What a program will load.
    ///
    /// # Errors
    /// [`Error::Unlisted`], for a script, say; [`Error::NotMpi`].
    pub fn of(program: &Path) -> Result<Mpi, Error> {
        let libraries = of_library(program)?;
        let mut found = libraries
            .into_iter()
            .filter_map(|library| Some((Kind::of(&library.name)?, library.path?)));
        let (kind, library) = found
            .next()
            .ok_or_else(|| Error::NotMpi(program.to_owned()))?;
        Ok(Mpi { kind, library })
    }

    /// A library that was named, for a program that opens it late: an interpreter, say.
    ///
    /// # Errors
    /// [`Error::NotMpi`].
    pub fn named(library: &Path) -> Result<Mpi, Error> {
        let kind = library
            .file_name()
            .and_then(|name| Kind::of(name.to_str()?));
        let kind = kind.ok_or_else(|| Error::NotMpi(library.to_owned()))?;
        Ok(Mpi {
            kind,
            library: library.to_owned(),
        })
    }

    /// The directory that it is installed in, if its data are found there: that of a wheel, say, which may lie anywhere.
    ///
    /// Open MPI and libpmix look for their files where they were built to be installed, unless told otherwise (OPAL_PREFIX, PMIX_PREFIX).
    pub fn prefix(&self) -> Option<&Path> {
        let prefix = self.library.parent()?.parent()?;
        prefix.join("share/openmpi").is_dir().then_some(prefix)
    }
}

/// A library that something needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Library {
    pub name: String,
    /// `None`: it is not found.
    pub path: Option<PathBuf>,
}

/// All libraries that a program or a library needs, directly or not.
pub(super) fn of_library(path: &Path) -> Result<Vec<Library>, Error> {
    let unlisted = |why: String| Error::Unlisted {
        path: path.to_owned(),
        why,
    };
    let path = path
        .canonicalize()
        .map_err(|error| unlisted(error.to_string()))?;
    let mut loader = Command::new(LOADER);
    // Nothing of a rank's own: it is none, and whatever is preloaded here need not be in the ranks.
    loader.env_clear();
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        loader.env("LD_LIBRARY_PATH", path);
    }
    let loader = loader.arg("--list").arg(&path).stdin(Stdio::null());
    let output = loader.output().map_err(Error::system(LOADER))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(unlisted(why));
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// Of lines like `libc.so.6 => /lib/libc.so.6 (0x00007f…)`.
fn read(listing: &str) -> Vec<Library> {
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
        let listing = "\tlinux-vdso.so.1 (0x7ff)\n\tlibmpi.so.40 => /a dir/libmpi.so.40 (0x00007f)\n\tlibx.so => not found\n";
        let found = read(listing);
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

    #[test]
    fn a_library_that_is_named_has_its_own_layer() {
        let layer = |library: &str| {
            Mpi::named(Path::new(library))
                .map(|mpi| mpi.kind.layer())
                .ok()
        };
        assert_eq!(layer("/a/libmpi.so.40"), Some("libunderstudy.so"));
        assert_eq!(layer("/a/libmpi.so.12"), Some("libunderstudy_mpich.so"));
        assert_eq!(layer("/a/libmpich.so.12"), Some("libunderstudy_debian.so"));
        assert_eq!(
            layer("/a/libmpi_abi.so.1"),
            Some("libunderstudy_standard.so")
        );
        assert_eq!(layer("/a/libc.so.6"), None);
    }

    #[test]
    fn programs_without_mpi_and_scripts_are_refused() {
        let own = std::env::current_exe().unwrap();
        assert!(
            of_library(&own)
                .unwrap()
                .iter()
                .any(|library| library.name == "libc.so.6")
        );
        assert!(matches!(Mpi::of(&own), Err(Error::NotMpi(_))));
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(matches!(Mpi::of(&script), Err(Error::Unlisted { .. })));
    }
}
