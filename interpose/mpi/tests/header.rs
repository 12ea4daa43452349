//! Comparison of the runtime's declarations of Open MPI's ABI with its mpi.h.

use std::mem::{offset_of, size_of};
use understudy_mpi::real_types::{
    ANY_SOURCE, ANY_TAG, PROC_NULL, RealComm, RealRequest, Status, UNDEFINED,
};

mod generated {
    include!("generated/header.rs");

    /// The generated file contains functions, whose compilation compares the prototypes.
    #[test]
    fn procedures_are_declared_as_in_the_header() {
        assert!(PROCEDURES.len() >= 450, "{}", PROCEDURES.len());
    }

    #[test]
    fn constants_have_the_values_of_the_header() {
        assert!(CONSTANTS.len() >= 168, "{}", CONSTANTS.len());
        let different: Vec<_> = CONSTANTS
            .iter()
            .filter(|(_, ours, theirs)| ours != theirs)
            .collect();
        assert!(different.is_empty(), "name, table, header: {different:?}");
    }
}

#[test]
fn the_status_has_the_headers_layout() {
    type Theirs = mpi_sys::MPI_Status;
    assert_eq!(size_of::<Status>(), size_of::<Theirs>());
    assert_eq!(offset_of!(Status, source), offset_of!(Theirs, MPI_SOURCE));
    assert_eq!(offset_of!(Status, tag), offset_of!(Theirs, MPI_TAG));
    assert_eq!(offset_of!(Status, error), offset_of!(Theirs, MPI_ERROR));
    assert_eq!(
        offset_of!(Status, cancelled),
        offset_of!(Theirs, _cancelled)
    );
    assert_eq!(offset_of!(Status, bytes), offset_of!(Theirs, _ucount));
}

#[test]
fn handles_and_constants_are_the_headers() {
    assert_eq!(size_of::<RealComm>(), size_of::<mpi_sys::MPI_Comm>());
    assert_eq!(size_of::<RealRequest>(), size_of::<mpi_sys::MPI_Request>());
    let pairs = [
        (PROC_NULL, mpi_sys::MPI_PROC_NULL as i64),
        (ANY_SOURCE, mpi_sys::MPI_ANY_SOURCE as i64),
        (ANY_TAG, mpi_sys::MPI_ANY_TAG as i64),
        (UNDEFINED, mpi_sys::MPI_UNDEFINED as i64),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(i64::from(ours), theirs);
    }
}
