//! Attribute keys and attributes (MPI 4.1, 7.7) of communicators, datatypes and windows.
//!
//! The runtime implements them without the real library.

mod attributed;
mod callback;
mod keyvals;
pub mod value;

pub use attributed::{Object, copy_comm, copy_type, delete_comm, delete_type, delete_win};
pub use callback::DUPLICATE;
pub use keyvals::{ERR_KEYVAL, INVALID, Keyval, Keyvals, Kind, Proxy};
