//! One thunk for each exported procedure, one object for each exported datum of libmpi.
#![allow(
    unsafe_code,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    dead_code,
    clippy::module_inception
)]

include!("generated/thunks.rs");
