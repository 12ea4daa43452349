//! Sessions (MPI 4.1, 11.3), beside `MPI_Init` or without it: process sets of the workers.
//!
//! They are wholly on our side, and hold nothing. Below them the library is initialised once, by
//! whatever comes first, and finalised at the end: in `MPI_Finalize`, or where sessions are or have
//! been open, or the program's code names `MPI_Session_init`, when the program ends, since it may
//! open others until then.

mod session_entries;
mod world_model;

pub use session_entries::{
    ERR_SESSION, SETS, create, errhandler, first, get_mut, index, members, null_handle, remove,
    set_world_model, tell,
};
pub use world_model::{Session, WorldModel, are_any, world_model};
