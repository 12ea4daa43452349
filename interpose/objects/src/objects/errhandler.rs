//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5), wholly on our side.
//!
//! The real library never calls a handler of the program: real communicators return their errors,
//! and `raise::raise` does the rest. Codes that the program adds are not known to it either,
//! because a rollback could not take them back.

mod errhandler_entries;
mod error_codes;
mod error_handler;
mod error_object;

pub use errhandler_entries::{create, default_of_files, free, is_of, no_file, null_handle};
pub use error_codes::{ErrorCodes, LAST_PREDEFINED};
pub use error_handler::{Action, Errhandler, Kind};
pub use error_object::Object;
