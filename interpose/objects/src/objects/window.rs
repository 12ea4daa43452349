//! Windows (MPI 4.1, chapter 12): recipes, and open epochs.
//!
//! Each window has its own communicator in the table, which the program does not see. The
//! communicator defines the members and is rebuilt like any other; windows are rebuilt in the order
//! of its `uid`. Memory that members share belongs to the runtime, all other memory to the program.

mod direct;
mod direct_windows;
mod epochs;
mod held;
mod locks;
mod number;
pub mod passive;
mod quiet;
pub mod recent;
mod recent_part;
mod region;
mod rma_window;
pub mod shared;
mod told;
mod window_entries;
mod window_hints;
mod window_rebuild;

pub use direct::{Direct, Flush};
pub use direct_windows::direct;
pub use epochs::{Epochs, Hold, LOCK_SHARED, NO_CHECK};
pub use quiet::{meet_again, quiesce};
pub use recent::change_epochs;
pub use recent_part::RecentPart;
pub use rma_window::{Cells, Flavor, NO_LOCKS, Window};
pub use window_entries::{
    attributes, comm_of, errhandler, exposed, get, get_mut, handle, has_spawned, index,
    null_handle, predefined, register, remove,
};
pub use window_hints::{Hints, info_of, told_hints};
pub use window_rebuild::{drop_reals, rebuild};
