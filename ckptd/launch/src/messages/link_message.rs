//! Messages on the connection between a node and the leader.

use super::order::Order;
use super::report::Report;
use bincode::{Decode, Encode};

/// Message of a node to the leader.
#[derive(Debug, Encode, Decode)]
pub enum NodeToLeader {
    /// Heartbeat; the leader returns the number.
    Beat(u64),
    Report(Report),
    /// Answer to [`LeaderToNode::RepeatReports`], before the first repeated report.
    Repeats(u32),
}

/// Message of the leader to a node.
#[derive(Debug, Encode, Decode)]
pub enum LeaderToNode {
    /// Returned heartbeat.
    Beat(u64),
    Order(Order),
    /// Requests new reports of all guardians and processes, as a new manager makes them.
    ///
    /// The manager of some node was replaced. The number identifies the repetition.
    RepeatReports(u32),
}
