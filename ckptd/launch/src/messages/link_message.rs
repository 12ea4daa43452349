//! Messages on the connection between a node and the leader.

use super::order::Order;
use super::report::Report;
use bincode::{Decode, Encode};
use std::time::Duration;

/// How often a node tells that it lives.
pub const BEAT: Duration = Duration::from_millis(500);

/// How long a node goes on without hearing of its leader.
pub const LEASE: Duration = Duration::from_secs(3);

/// What a node says.
#[derive(Debug, Encode, Decode)]
pub enum NodeToLeader {
    /// It lives; the number is for itself.
    Beat(u64),
    Report(Report),
}

/// What the leader says.
#[derive(Debug, Encode, Decode)]
pub enum LeaderToNode {
    /// That beat has been heard.
    Beat(u64),
    Order(Order),
}
