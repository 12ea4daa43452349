//! Handles and the status of the real library.

include!(concat!(env!("OUT_DIR"), "/real_types.rs"));
