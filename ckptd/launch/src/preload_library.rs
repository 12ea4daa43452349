//! The preload library for each MPI library.

use understudy_pmi::MpiKind;

/// Returns the name of the preload library that stands in for an MPI library.
///
/// A program that is linked with its MPI library starts with any preload library, which executes
/// the program again with the matching one. A program that opens its MPI library late needs the
/// matching preload library from the start.
pub fn preload_library(mpi: MpiKind) -> &'static str {
    match mpi {
        MpiKind::OpenMpi => "libunderstudy.so",
        MpiKind::Mpich => "libunderstudy_mpich.so",
        MpiKind::Debian => "libunderstudy_debian.so",
        MpiKind::Standard => "libunderstudy_standard.so",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use understudy_pmi::MpiLibrary;

    #[test]
    fn a_library_that_is_named_has_its_own_preload_library() {
        let preloaded = |library: &str| {
            MpiLibrary::named(Path::new(library))
                .map(|mpi| preload_library(mpi.kind))
                .ok()
        };
        assert_eq!(preloaded("/a/libmpi.so.40"), Some("libunderstudy.so"));
        assert_eq!(preloaded("/a/libmpi.so.12"), Some("libunderstudy_mpich.so"));
        assert_eq!(
            preloaded("/a/libmpich.so.12"),
            Some("libunderstudy_debian.so")
        );
        assert_eq!(
            preloaded("/a/libmpi_abi.so.1"),
            Some("libunderstudy_standard.so")
        );
        assert_eq!(preloaded("/a/libc.so.6"), None);
    }
}
