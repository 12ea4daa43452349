//! Costs of three kinds of rollback for a stencil program on a machine that fails.
//!
//! The program has a partition on each node, in a chain or a grid. A task is one iteration of one
//! partition; a task depends on the previous tasks of its partition and of the neighbours. All
//! partitions take a checkpoint together after a number of iterations. When a node fails, another
//! node replaces it at once, and
//!
//! - *global*: all partitions are rolled back to the checkpoint;
//! - *log*: only the lost partition is rolled back, and messages are taken from the logs of its
//!   neighbours;
//! - *data flow*: only the lost partition is rolled back, and its neighbours duplicate their own
//!   partitions, which compute the messages again.
//!
//! Source: "Data flow rollback" for iterative programs, sections 2, 3, 5 and 6 (global rollback and
//! logs for comparison); its equations 3 to 6 are in [`model`]. Time is in seconds, energy in
//! joules, sizes in bytes. Equal seeds give equal failures to all three.

pub mod cone;
mod failures;
mod global;
mod grid;
mod local;
pub mod model;
mod run;
mod setting;
mod study;

pub use failures::Failures;
pub use global::global;
pub use grid::Grid;
pub use local::{Local, local};
pub use run::Run;
pub use setting::Setting;
pub use study::{Simulation, Strategies, Strategy, Values, series, simulate};
