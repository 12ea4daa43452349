//! Tool interface (MPI 4.1, chapter 15.3): handles of the program, and their rebuild.
//!
//! The variables belong to the library, so each MPI instance has new variables. Control variables
//! that the program has written are [written once more](written); performance variables start from
//! their initial values. All calls are local and may precede `MPI_Init`, and are never abandoned.

mod tool_handles;
mod tool_library;
mod tool_rebuild;
mod tool_variables;
pub mod written;
mod written_values;

pub use tool_handles::{RealToolHandles, ToolHandleKind, handle, index};
pub use tool_library::{
    ALL, BoundObject, INVALID_HANDLE, INVALID_SESSION, NO_STARTSTOP, NO_WRITE, NOT_INITIALIZED,
    VariableInfo, describe_cvar, describe_pvar, discard_reals, find_cvar, is_open, make_cvar,
    make_pvar, make_session, open, real_of, set_real,
};
pub use tool_rebuild::rebuild;
pub use tool_variables::{Cvar, Pvar, ToolHandles};
