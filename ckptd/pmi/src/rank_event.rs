//! Events of ranks that the servers report.

use crate::GenerationName;
use understudy_numbers::Rank;

/// An action of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankEvent {
    pub generation: GenerationName,
    pub rank: Rank,
    pub action: RankAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankAction {
    /// The rank has begun MPI_Init.
    Connected,
    /// The rank is at the end of MPI_Finalize.
    Finalized,
    /// The rank has called MPI_Abort, or its MPI library has aborted.
    ///
    /// The cause may be the death of another rank.
    Abort { status: i32, message: String },
}
