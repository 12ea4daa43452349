//! A program and its machine.

use crate::Grid;

/// Expected number of restarts of one section from which a run counts as endless.
const MOST_RESTARTS: f64 = 1e5;

/// A program and the machine that it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub grid: Grid,
    pub iterations: u32,
    /// Number of iterations between two checkpoints.
    pub every: u32,
    /// Duration of a task, in seconds.
    pub task: f64,
    /// Mean time between two failures of one node, in seconds.
    pub node_mtbf: f64,
    /// Time until data have arrived at a neighbour, in seconds.
    pub exchange: f64,
    /// Time until the replica of a partition is stored, in seconds.
    pub copy: f64,
    /// True if no partition continues before all have taken a checkpoint.
    pub is_coordinated: bool,
}

impl Setting {
    /// Returns the duration of an iteration without failures, in seconds.
    pub(crate) fn iteration(&self) -> f64 {
        self.task
            + if self.grid.nodes() > 1 {
                self.exchange
            } else {
                0.0
            }
    }

    /// Returns the iterations of the section after the first `done`, and its checkpoint's duration.
    pub(crate) fn section(&self, done: u32) -> (u32, f64) {
        let count = self.every.min(self.iterations - done);
        let has_checkpoint = count == self.every && self.grid.nodes() > 1;
        (count, if has_checkpoint { self.copy } else { 0.0 })
    }

    /// True if a run with global rollback ends after a reasonable number of restarts.
    pub fn can_end(&self) -> bool {
        let section = f64::from(self.every) * self.iteration() + self.copy;
        (section * self.grid.nodes() as f64 / self.node_mtbf).exp() < MOST_RESTARTS
    }
}
