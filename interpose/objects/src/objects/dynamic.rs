//! Ports and published names (MPI 4.1, 11.8), and messages for establishing connections.
//!
//! All of this state rolls back with the program. A process never reuses the number of a port.

mod dynamic_entry;
mod ports;

pub use dynamic_entry::{captured, get, get_mut, settled, went_back};
pub use ports::{Begun, Board, Dynamic, Found, Word};
