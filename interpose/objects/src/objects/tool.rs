//! The tool interface (MPI 4.1, chapter 15.3): what it has given out to the program, and how to get
//! it again.
//!
//! Variables are the library's, and new in each generation: control variables that the program has
//! written are [written again](written), performance variables start from their beginning. All
//! calls are local, so they are never abandoned, and may be made before `MPI_Init`.

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
