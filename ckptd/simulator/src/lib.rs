//! What three ways of rolling back cost a stencil program on a machine that fails.
//!
//! The program has a partition on each node, in a chain or a grid; a task is one iteration of one
//! partition, and needs its own last one and those of its neighbours. All take a checkpoint
//! together after every few iterations. When a node fails, another takes its place at once, and
//!
//! - *global*: all partitions go back to the checkpoint;
//! - *log*: only the lost one does, and messages come from the logs of its neighbours;
//! - *data flow*: the lost one does, and its neighbours make duplicates of their own parts that
//!   give it the messages again.
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
