//! Windows (MPI 4.1, 12.2): creation, release and queries.
//!
//! Operations on windows (12.3) are in `one_sided` and `accumulate`, epochs (12.5) in `epochs`.
//! Windows with spawned processes as members are in `with_spawned`.

mod new_window;
mod shared_query;
mod window_calls;
mod with_spawned;

pub use shared_query::MPI_Win_shared_query;
pub use window_calls::{
    MPI_Win_allocate, MPI_Win_allocate_shared, MPI_Win_attach, MPI_Win_c2f, MPI_Win_create,
    MPI_Win_create_dynamic, MPI_Win_detach, MPI_Win_f2c, MPI_Win_free, MPI_Win_get_group,
    MPI_Win_get_info, MPI_Win_get_name, MPI_Win_set_info, MPI_Win_set_name,
};
