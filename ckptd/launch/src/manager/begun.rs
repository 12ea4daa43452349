//! The generation that has begun last.

use understudy_numbers::{Generation, ProcessNumber};
use understudy_pmi::Name;

/// The generation that has begun last.
pub struct Begun {
    pub(super) name: Name,
    pub(super) generation: Generation,
    /// Which of its hosts this node is.
    pub(super) here: usize,
    /// The process of each rank.
    pub(super) ranks: Vec<ProcessNumber>,
}
