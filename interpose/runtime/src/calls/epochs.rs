//! Access and exposure epochs of windows (MPI 4.1, 12.5).
//!
//! The library implements fences. The runtime implements post, start, complete and wait
//! ([`crate::exposure`]), except for windows with spawned processes, which have no runtime.
//! `passive` contains locks and flushes.
//!
//! A cut may be taken at the entry of each procedure. A procedure that waits until another process
//! calls MPI either polls for cuts while it waits, or is entered like a collective over some
//! workers.

mod active_target;
mod epoch_ends;
mod passive;

pub use active_target::{
    MPI_Win_complete, MPI_Win_fence, MPI_Win_post, MPI_Win_start, MPI_Win_test, MPI_Win_wait,
};
pub use passive::*;
