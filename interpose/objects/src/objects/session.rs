//! Sessions (MPI 4.1, 11.3), with or without `MPI_Init`: process sets of the workers.
//!
//! The runtime implements sessions without the real library; the state of a session is its error
//! handler. The real library is initialised once, by the first session or by `MPI_Init`. It is
//! finalised in `MPI_Finalize` if the program cannot create sessions afterwards. A program can
//! create sessions if it has used sessions before, or if its code names `MPI_Session_init`; the
//! library is then finalised when the program ends.

mod session_entries;
mod world_model;

pub use session_entries::{
    ERR_SESSION, SETS, create, errhandler, first, get_mut, index, members, null_handle,
    publish_state, remove, set_world_model,
};
pub use world_model::{Session, WorldModel, has_sessions, world_model};
