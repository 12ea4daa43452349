//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5).
//!
//! The runtime implements them without the real library. Real communicators return their errors
//! (`MPI_ERRORS_RETURN`), and `error_handling::handle_error` calls the program's error handler. The
//! codes that the program adds are not added to the real library, because a rollback could not
//! remove them there.

mod errhandler_entries;
mod error_codes;
mod error_handler;
mod error_object;

pub use errhandler_entries::{
    create, default_of_files, free, is_valid_for, null_file, null_handle,
};
pub use error_codes::{ErrorCodes, LAST_PREDEFINED};
pub use error_handler::{Errhandler, ErrhandlerKind, ErrorAction};
pub use error_object::ErrorObject;
