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
}

/// Message of the leader to a node.
#[derive(Debug, Encode, Decode)]
pub enum LeaderToNode {
    /// Returned heartbeat.
    Beat(u64),
    Order(Order),
}
