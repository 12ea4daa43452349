//! Sessions (MPI 4.1, 11.3), with or without `MPI_Init`: process sets of the workers.
//!
//! The runtime implements sessions without the real library; the state of a session is its error
//! handler. The real library is initialised once, by the first session or by `MPI_Init`. It is
//! finalised in `MPI_Finalize` unless sessions are open, or the program's code names
//! `MPI_Session_init`, so that sessions may be created later. The library is then finalised when
//! the program ends.

mod session_entries;
mod world_model;

pub use session_entries::{
    ERR_SESSION, SETS, create, errhandler, first, get_mut, index, members, null_handle,
    publish_state, remove, set_world_model,
};
pub use world_model::{Session, WorldModel, has_sessions, world_model};
