//! Procedures of the MPI library, generated from the call table.
#![allow(unsafe_code, missing_docs)]

include!("generated/real.rs");
