//! Ports and published names (MPI 4.1, 11.8), and what processes have told each other to connect.
//!
//! All of it rolls back with the program. A port has a number, which its process never gives again.

mod dynamic_entry;
mod ports;

pub use dynamic_entry::{captured, get, get_mut, settled, went_back};
pub use ports::{Begun, Board, Dynamic, Found, Word};
