//! Communicators (MPI 4.1, chapter 7): their recipes, and fast queries about them.
//!
//! A recipe lists the member workers in order; it does not record how the program created the
//! communicator. All communicators are therefore rebuilt in one way, by splitting the new world
//! (`rebuild`).

mod collective_counts;
mod comm_entries;
mod communicator;
pub mod create;
pub mod first_collectives;
pub mod freed;
mod hint_pairs;
pub mod hints;
mod local_comms;
mod predefined_comms;
mod rebuild;
mod recent_comm;
pub mod spawned;
mod spawned_worker;
pub mod topology;

pub use collective_counts::{
    count_collective, ring_neighbour, sum_of_collectives, uncount_collective,
};
pub use comm_entries::{
    attributes, degrees, errhandler, get, get_mut, has_any_spawned, has_spawned, members, rank_of,
    remote_members, require_workers_only, session, set_errhandler, size_of_both,
};
pub use communicator::{Comm, SELF, SELF_UID, WORLD, WORLD_UID};
pub use local_comms::LocalComms;
pub use predefined_comms::{
    bridge, discard_reals, handle, init, my_rank, null_handle, self_handle, world_handle,
};
pub use rebuild::rebuild;
pub use recent_comm::{discard_recent, index, rank_and_size, spans_all, worker_of};
pub use spawned_worker::is_spawned;
pub use topology::Topology;
