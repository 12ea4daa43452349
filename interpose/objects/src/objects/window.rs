//! Windows (MPI 4.1, chapter 12): recipes, and open epochs.
//!
//! Each window has its own communicator in the table, which the program does not see. The
//! communicator defines the members and is rebuilt like any other; windows are rebuilt in the order
//! of their communicators' `uid`s. Memory that members share is allocated by the runtime
//! (`region`), all other memory is on the program side.

mod direct;
mod direct_windows;
mod epochs;
mod library_epochs;
mod locks;
mod number_type;
mod own_locks;
pub mod passive;
mod quiesce;
pub mod recent_access;
mod recent_part;
mod region;
mod rma_window;
pub mod shared;
mod window_entries;
mod window_hints;
mod window_rebuild;

pub use direct::{DirectWindow, FlushWork};
pub use direct_windows::direct;
pub use epochs::{Epochs, LOCK_SHARED, LockKind, NO_CHECK};
pub use own_locks::LockArguments;
pub use quiesce::{quiesce, wait_for_captures};
pub use recent_access::change_epochs;
pub use recent_part::RecentPart;
pub use rma_window::{AttributeCells, NO_LOCKS, Window, WindowFlavor};
pub use window_entries::{
    attributes, comm_of, errhandler, exposed, get, get_mut, handle, has_spawned, index,
    null_handle, predefined, register, remove,
};
pub use window_hints::{WindowHints, info_of, visible_hints};
pub use window_rebuild::{discard_reals, rebuild};
