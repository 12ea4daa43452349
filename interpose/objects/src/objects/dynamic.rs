//! Ports and published names (MPI 4.1, 11.8), and messages for establishing connections.
//!
//! All of this state rolls back with the program. A process never reuses the number of a port.

mod dynamic_entry;
mod ports;
mod spawn_counts;

pub use dynamic_entry::{get, get_mut, record_capture, record_commit, record_rollback};
pub use ports::{ConnectProgress, ConnectionMessage, ConnectionState, FoundPeer, PublicBoard};
pub use spawn_counts::SpawnCounts;
