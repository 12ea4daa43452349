//! Groups (MPI 4.1, 7.3): lists of workers, and of processes that they have spawned.
//!
//! The runtime itself implements all local operations. A group also has a real group, for calls
//! that pass groups to the library, if communicators contain all of its members.

mod group_entries;
mod group_members;

pub use group_entries::{
    ERR_GROUP, create, empty_handle, free, index, members, null_handle, rebuild, release_all,
    session,
};
pub use group_members::{
    Comparison, Group, compare, difference, excl, expand, incl, intersection, translate, union,
};
