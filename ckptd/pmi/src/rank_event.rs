//! Events of ranks that the servers report.

use crate::Name;
use understudy_numbers::Rank;

/// An action of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankEvent {
    pub generation: Name,
    pub rank: Rank,
    pub action: RankAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankAction {
    /// The rank has begun MPI_Init.
    Connected,
    /// The rank is at the end of MPI_Finalize.
    Finalized,
    /// The rank has called MPI_Abort: the whole job must end.
    Abort { status: i32, message: String },
}
