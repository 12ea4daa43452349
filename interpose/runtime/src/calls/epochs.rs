//! Epochs of windows (MPI 4.1, 12.5): fences are the library's; post, start, complete and wait are
//! the layer's ([`crate::exposure`]), but where spawned processes, which know nothing of that, have
//! the window, too; `passive` has locks and flushes.
//!
//! Each is where a cut may be taken, before it begins. What waits for others' programs either looks
//! for cuts meanwhile or is entered like a collective over some workers.

mod active_target;
mod epoch_ends;
mod passive;

pub use active_target::{
    MPI_Win_complete, MPI_Win_fence, MPI_Win_post, MPI_Win_start, MPI_Win_test, MPI_Win_wait,
};
pub use passive::*;
