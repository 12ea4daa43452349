//! Ports and published names (MPI 4.1, 11.8), and messages for establishing connections.
//!
//! This state rolls back with the program, except counts of spawns, which a rollback cannot undo.
//! Between rollbacks, a process never reuses the number of a port.

mod dynamic_entry;
mod ports;
mod spawn_counts;

pub use dynamic_entry::{get, get_mut, record_capture, record_commit, record_rollback};
pub use ports::{ConnectProgress, ConnectionMessage, ConnectionState, FoundPeer, PublicBoard};
pub use spawn_counts::SpawnCounts;
