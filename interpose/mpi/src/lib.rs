//! The real MPI library: the only crate that calls it.
//!
//! The library lies in a link-map namespace of its own, with a libc of its own, in the zone's second half. Nothing is
//! linked to it: the face opens it, and its procedures are found by name. So the library can be any file that the
//! program's job names, and its whole state can be put back without a trace in the runtime.

pub mod abi;
pub mod call;
pub mod comm;
pub mod error;
pub mod library;
pub mod real_types;
pub mod side;

/// Generated from the call table.
#[allow(unsafe_code, missing_docs)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/real.rs"));
}

pub use error::{Error, Result, both, check};
pub use generated::{callbacks, real};
