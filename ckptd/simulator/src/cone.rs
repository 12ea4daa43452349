//! Which tasks give a lost partition its messages again.
//!
//! A partition that fails after `lost` iterations since the checkpoint needs of iteration k the
//! tasks at most `lost` − k steps away.

use crate::Grid;

/// Tasks of the first `done` of `lost` iterations that are computed again.
pub fn tasks(grid: Grid, node: usize, lost: usize, done: usize) -> usize {
    (1..=done)
        .map(|iteration| grid.within(node, lost - iteration))
        .sum()
}

/// Neighbours that compute or give data of the checkpoint, where no border is near: 2i in a chain,
/// 2i(i + 1) in a grid.
pub fn neighbours(lost: f64, is_chain: bool) -> f64 {
    if is_chain {
        2.0 * lost
    } else {
        2.0 * lost * (lost + 1.0)
    }
}

/// Tasks where no border is near: i² in a chain, (2i³ + i)/3 in a grid.
pub fn inner_tasks(lost: f64, is_chain: bool) -> f64 {
    if is_chain {
        lost * lost
    } else {
        (2.0 * lost.powi(3) + lost) / 3.0
    }
}
