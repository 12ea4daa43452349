//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5).
//!
//! The runtime implements them without the real library, which never calls a handler of the
//! program. Real communicators return their errors, and `error_handling::handle_error` acts on
//! them. The real library does not have the codes that the program adds either, because a rollback
//! could not remove them.

mod errhandler_entries;
mod error_codes;
mod error_handler;
mod error_object;

pub use errhandler_entries::{create, default_of_files, free, is_of, null_file, null_handle};
pub use error_codes::{ErrorCodes, LAST_PREDEFINED};
pub use error_handler::{Errhandler, ErrhandlerKind, ErrorAction};
pub use error_object::ErrorObject;
