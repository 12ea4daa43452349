//! Tool interface (MPI 4.1, chapter 15.3): handles of the program, and their rebuild.
//!
//! Variables belong to the library, and are new in each MPI instance: control variables that the
//! program has written are [written once more](written), performance variables start from their
//! initial values. All calls are local, so they are never abandoned, and may precede `MPI_Init`.

mod tool_handles;
mod tool_library;
mod tool_rebuild;
mod tool_variables;
pub mod written;
mod written_values;

pub use tool_handles::{Of, Reals, handle, index};
pub use tool_library::{
    ALL, Bound, INVALID_HANDLE, INVALID_SESSION, NO_STARTSTOP, NO_WRITE, NOT_INITIALIZED, Variable,
    describe_cvar, describe_pvar, find_cvar, forget_reals, is_open, make_cvar, make_pvar,
    make_session, open, real_of, set_real,
};
pub use tool_rebuild::rebuild;
pub use tool_variables::{Cvar, Pvar, Tool};
