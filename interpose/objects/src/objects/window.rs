//! Windows (MPI 4.1, chapter 12): recipes, and which epochs are open.
//!
//! Each window has a communicator of its own in the table, which the program does not know: that
//! tells the members, is made again like any other, and its `uid` says in which order windows are
//! made again. Memory that members share is the layer's; all other is the program's.

mod direct;
mod direct_windows;
mod epochs;
mod held;
mod locks;
mod number;
pub mod passive;
mod quiet;
mod rebuild;
pub mod recent;
mod recent_part;
mod region;
mod rma_window;
pub mod shared;
mod told;
mod window_entries;
mod window_hints;

pub use direct::{Direct, Flush};
pub use direct_windows::direct;
pub use epochs::{Epochs, Hold, LOCK_SHARED, NO_CHECK};
pub use quiet::{meet_again, quiesce};
pub use rebuild::{drop_reals, rebuild};
pub use recent::change_epochs;
pub use recent_part::RecentPart;
pub use rma_window::{Cells, Flavor, NO_LOCKS, Window};
pub use window_entries::{
    attributes, comm_of, errhandler, exposed, get, get_mut, handle, has_spawned, index,
    null_handle, predefined, register, remove,
};
pub use window_hints::{Hints, info_of, told_hints};
