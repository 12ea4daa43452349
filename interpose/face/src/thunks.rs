//! Thunks of all exported procedures, and objects for the data symbols of libmpi.
#![allow(
    unsafe_code,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    dead_code,
    clippy::module_inception
)]

include!("generated/thunks.rs");
