//! Sessions (MPI 4.1, 11.3), with or without `MPI_Init`: process sets of the workers.
//!
//! The runtime implements sessions without the real library, and a session has no further state.
//! The real library is initialised once, by the first session or `MPI_Init`. It is finalised in
//! `MPI_Finalize`, or else when the program ends: a program that has used sessions, or whose code
//! names `MPI_Session_init`, may create further ones until then.

mod session_entries;
mod world_model;

pub use session_entries::{
    ERR_SESSION, SETS, create, errhandler, first, get_mut, index, members, null_handle, remove,
    set_world_model, tell,
};
pub use world_model::{Session, WorldModel, are_any, world_model};
