//! Messages on the connection between a node and the leader.

use super::order::Order;
use super::report::Report;
use bincode::{Decode, Encode};
use std::time::Duration;

/// Interval of a node's heartbeats.
pub const BEAT: Duration = Duration::from_millis(500);

/// Time for which a node continues without a returned heartbeat.
pub const LEASE: Duration = Duration::from_secs(3);

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
