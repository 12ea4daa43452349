//! The real MPI library, which only this crate calls.
//!
//! The library is in its own link-map namespace, with its own libc, in the second half of the
//! reserved range. No crate is linked with the library: the preload library opens the file, and the
//! procedures are looked up by name. The library can therefore be any file that the program would
//! have used, and all of its state can be reset without an effect on the runtime.

pub mod abi;
pub mod blind;
pub mod bytes;
pub mod call;
pub mod cancellation;
pub mod comm;
pub mod error;
pub mod exit_word;
pub mod in_flight;
pub mod landings;
pub mod library;
pub mod plain;
mod procedures;
pub mod real_types;
pub mod side;

pub use error::{Error, Result, check, combine_results};
pub use procedures::{callbacks, real};

use std::ffi::c_void;

/// Connects to the opened library.
///
/// # Safety
/// `library` must be a handle of dlmopen(3) for an MPI library whose calling conventions and
/// types are those of the call table or of another supported ABI. `shim` must be a handle for the
/// shim in the library's namespace. Both must stay open.
#[allow(unsafe_code)]
pub unsafe fn connect(library: *mut c_void, shim: *mut c_void) {
    call::use_default_page();
    library::resolve_procedures(library, shim);
    abi::connect();
}
