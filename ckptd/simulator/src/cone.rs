//! Tasks and neighbours that take part in the recovery of a lost partition.
//!
//! A partition that fails after `lost` iterations since the checkpoint depends on the tasks of
//! iteration k that are at most `lost` − k steps away.

use crate::Grid;

/// Returns the number of tasks that are computed again.
///
/// Only the first `done` of the `lost` iterations are computed if another failure then interrupts
/// the recovery.
pub fn tasks(grid: Grid, node: usize, lost: usize, done: usize) -> usize {
    (1..=done)
        .map(|iteration| grid.within(node, lost - iteration))
        .sum()
}

/// Returns the number of neighbours that compute, or send data of the checkpoint.
///
/// Without a border in reach the number is 2i in a chain and 2i(i + 1) in a grid, where i is
/// `lost`.
pub fn neighbours(lost: f64, is_chain: bool) -> f64 {
    if is_chain {
        2.0 * lost
    } else {
        2.0 * lost * (lost + 1.0)
    }
}

/// Returns the number of tasks that are computed again, without a border in reach.
///
/// The number is i² in a chain and (2i³ + i)/3 in a grid, where i is `lost`.
pub fn inner_tasks(lost: f64, is_chain: bool) -> f64 {
    if is_chain {
        lost * lost
    } else {
        (2.0 * lost.powi(3) + lost) / 3.0
    }
}
