//! The MPI library of a program.

use crate::Error;
use crate::linked_libraries::linked_libraries;
use std::path::{Path, PathBuf};

/// Kind of an MPI library, as far as the process manager is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MpiKind {
    /// Open MPI 4 and 5, with PMIx.
    OpenMpi,
    /// MPICH and libraries with its ABI, with PMI-1.
    Mpich,
    /// MPICH under the name that Debian gives its library.
    Debian,
    /// MPICH's library of the standard ABI (MPI 5.0, chapter 20), with PMI-1.
    Standard,
}

impl MpiKind {
    /// Kinds by soname.
    const NAMES: [(&'static str, MpiKind); 4] = [
        ("libmpi.so.40", MpiKind::OpenMpi),
        ("libmpi.so.12", MpiKind::Mpich),
        ("libmpich.so.12", MpiKind::Debian),
        ("libmpi_abi.so.1", MpiKind::Standard),
    ];

    /// Returns the sonames of all kinds.
    pub fn sonames() -> impl Iterator<Item = &'static str> {
        MpiKind::NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the kind of the library with this soname, if understudy supports it.
    pub fn of(library: &str) -> Option<MpiKind> {
        let found = MpiKind::NAMES.iter().find(|(name, _)| library == *name);
        found.map(|&(_, kind)| kind)
    }
}

/// The MPI library of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MpiLibrary {
    pub kind: MpiKind,
    pub library: PathBuf,
}

impl MpiLibrary {
    /// Returns the MPI library that a program will load.
    ///
    /// # Errors
    /// [`Error::Unlisted`], for example for a script; [`Error::NotMpi`].
    pub fn of(program: &Path) -> Result<MpiLibrary, Error> {
        let libraries = linked_libraries(program)?;
        let mut found = libraries
            .into_iter()
            .filter_map(|library| Some((MpiKind::of(&library.name)?, library.path?)));
        let (kind, library) = found
            .next()
            .ok_or_else(|| Error::NotMpi(program.to_owned()))?;
        Ok(MpiLibrary { kind, library })
    }

    /// Returns the library with this name.
    ///
    /// Used for a program that opens the library late, such as an interpreter.
    ///
    /// # Errors
    /// [`Error::NotMpi`].
    pub fn named(library: &Path) -> Result<MpiLibrary, Error> {
        let kind = library
            .file_name()
            .and_then(|name| MpiKind::of(name.to_str()?));
        let kind = kind.ok_or_else(|| Error::NotMpi(library.to_owned()))?;
        Ok(MpiLibrary {
            kind,
            library: library.to_owned(),
        })
    }

    /// Returns the installation directory if it contains the library's data.
    ///
    /// A wheel may be installed anywhere. Open MPI and libpmix search for their files in the
    /// directory for which they were built, unless OPAL_PREFIX and PMIX_PREFIX are set.
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
        assert!(matches!(MpiLibrary::of(&own), Err(Error::NotMpi(_))));
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(matches!(
            MpiLibrary::of(&script),
            Err(Error::Unlisted { .. })
        ));
    }
}
