//! A program and its machine.

use crate::Grid;

/// Restarts of one section from which on a run counts as endless.
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
    /// True if all have taken a checkpoint before any goes on from it.
    pub is_coordinated: bool,
}

impl Setting {
    /// Seconds of an iteration in which nothing fails.
    pub(crate) fn iteration(&self) -> f64 {
        self.task
            + if self.grid.nodes() > 1 {
                self.exchange
            } else {
                0.0
            }
    }

    /// Returns the iterations of the section after `done`, and the seconds of its checkpoint.
    pub(crate) fn section(&self, done: u32) -> (u32, f64) {
        let count = self.every.min(self.iterations - done);
        let has_checkpoint = count == self.every && self.grid.nodes() > 1;
        (count, if has_checkpoint { self.copy } else { 0.0 })
    }

    /// True if a run in which all go back at each failure comes to an end.
    pub fn can_end(&self) -> bool {
        let section = f64::from(self.every) * self.iteration() + self.copy;
        (section * self.grid.nodes() as f64 / self.node_mtbf).exp() < MOST_RESTARTS
    }
}
