//! The real MPI library: the only crate that calls it.
//!
//! The library lies in a link-map namespace of its own, with a libc of its own, in the zone's
//! second half. Nothing is linked to it: the face opens it, and its procedures are found by name.
//! So the library can be any file that the program's job names, and its whole state can be put back
//! without a trace in the runtime.

pub mod abi;
pub mod bytes;
pub mod call;
pub mod cancellation;
pub mod comm;
pub mod error;
pub mod exit_word;
pub mod library;
mod procedures;
pub mod real_types;
pub mod side;

pub use error::{Error, Result, both, check};
pub use procedures::{callbacks, real};

use std::ffi::c_void;

/// Connects to the opened library.
///
/// # Safety
/// `library` must be a handle of dlmopen(3) for an MPI library whose calling conventions and types
/// are those of the call table or of an ABI that is known here, `shim` one for the shim in its
/// namespace; both must stay open.
#[allow(unsafe_code)]
pub unsafe fn connect(library: *mut c_void, shim: *mut c_void) {
    call::stand_alone();
    library::look_up(library, shim);
    abi::connect();
}
