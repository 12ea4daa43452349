//! The MPI library of a program.

use crate::Error;
use crate::linked_libraries::linked_libraries;
use std::path::{Path, PathBuf};

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
        let libraries = linked_libraries(program)?;
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

    /// The directory that it is installed in, if its data are found there: that of a wheel, say,
    /// which may lie anywhere.
    ///
    /// Open MPI and libpmix look for their files where they were built to be installed, unless told
    /// otherwise (OPAL_PREFIX, PMIX_PREFIX).
    pub fn prefix(&self) -> Option<&Path> {
        let prefix = self.library.parent()?.parent()?;
        prefix.join("share/openmpi").is_dir().then_some(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_mpi_and_scripts_are_refused() {
        let own = std::env::current_exe().unwrap();
        assert!(
            linked_libraries(&own)
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
