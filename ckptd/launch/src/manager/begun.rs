//! The last generation that has begun.

use understudy_numbers::{Generation, ProcessNumber};
use understudy_pmi::Name;

/// The last generation that has begun.
pub struct Begun {
    pub(super) name: Name,
    pub(super) generation: Generation,
    /// Index of this node among the generation's hosts.
    pub(super) here: usize,
    /// Process of each rank.
    pub(super) ranks: Vec<ProcessNumber>,
}
