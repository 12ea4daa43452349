//! Partitions in a chain or a grid.
//!
//! The neighbours of a partition are the partitions beside, above and below it.

/// Columns and rows of partitions; a chain is one row or one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub width: usize,
    pub height: usize,
}

impl Grid {
    pub const fn chain(length: usize) -> Self {
        Self {
            width: length,
            height: 1,
        }
    }

    pub const fn nodes(self) -> usize {
        self.width * self.height
    }

    pub const fn is_chain(self) -> bool {
        self.height == 1 || self.width == 1
    }

    /// Returns the number of partitions at most `radius` steps away, including this one.
    pub fn within(self, node: usize, radius: usize) -> usize {
        let (column, row) = (node % self.width, node / self.width);
        let rows = row.saturating_sub(radius)..=(row + radius).min(self.height - 1);
        rows.map(|other| {
            let rest = radius - other.abs_diff(row);
            (column + rest).min(self.width - 1) - column.saturating_sub(rest) + 1
        })
        .sum()
    }
}
