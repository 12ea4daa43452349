//! Procedures and constants of MPICH's libmpi, generated from their table.
#![allow(unsafe_code, non_snake_case, missing_docs, dead_code)]

use core::ffi::c_int;

include!("../generated/mpich.rs");
