//! What the servers report of ranks.

use crate::Name;
use understudy_numbers::Rank;

/// What a rank has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankEvent {
    pub generation: Name,
    pub rank: Rank,
    pub action: RankAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankAction {
    /// It has begun MPI_Init.
    Connected,
    /// It is at the end of MPI_Finalize.
    Finalized,
    /// It has called MPI_Abort: the whole job shall end.
    Abort { status: i32, message: String },
}
