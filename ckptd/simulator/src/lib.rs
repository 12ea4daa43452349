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

pub use failures::Failures;
pub use global::global;
pub use grid::Grid;
pub use local::{Local, local};

/// Restarts of one section that are waited for; with more the run has no end that anybody sees.
const MOST_RESTARTS: f64 = 1e5;

/// A program and the machine that it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub grid: Grid,
    pub iterations: u32,
    /// Iterations from one checkpoint to the next.
    pub every: u32,
    /// Seconds of a task.
    pub task: f64,
    /// Seconds between two failures of one node, on average.
    pub node_mtbf: f64,
    /// Seconds until a neighbour has what it needs.
    pub exchange: f64,
    /// Seconds until the copy of a partition is where it is kept.
    pub copy: f64,
    /// Whether nobody goes on from a checkpoint before all have taken it.
    pub is_coordinated: bool,
}

impl Setting {
    /// Seconds of an iteration in which nothing fails.
    fn iteration(&self) -> f64 {
        self.task
            + if self.grid.nodes() > 1 {
                self.exchange
            } else {
                0.0
            }
    }

    /// Iterations of the section that begins after `done`, and the seconds of the checkpoint at its
    /// end.
    fn section(&self, done: u32) -> (u32, f64) {
        let count = self.every.min(self.iterations - done);
        let has_checkpoint = count == self.every && self.grid.nodes() > 1;
        (count, if has_checkpoint { self.copy } else { 0.0 })
    }

    /// Whether a run in which all go back at each failure comes to an end.
    pub fn can_end(&self) -> bool {
        let section = f64::from(self.every) * self.iteration() + self.copy;
        (section * self.grid.nodes() as f64 / self.node_mtbf).exp() < MOST_RESTARTS
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    pub failures: u64,
    /// Tasks that were completed beyond those of an undisturbed run.
    pub recomputed: f64,
    /// Seconds.
    pub time: f64,
}
