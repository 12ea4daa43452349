//! Messages between a manager of a job on several nodes and its parent process.

use bincode::{Decode, Encode};

/// Duty of a manager of a job on several nodes, received by its standard input.
#[derive(Debug, Encode, Decode)]
pub enum ManagerDuty {
    /// Leads the managers of the other nodes, which are on the hosts `others`.
    Lead { token: Vec<u8>, others: Vec<String> },
    /// Manages another node, and connects to the leader at one of these addresses.
    Follow {
        token: Vec<u8>,
        node: u32,
        leader: Vec<String>,
    },
}

/// Message to a leader on its standard input, after its duty.
#[derive(Debug, Encode, Decode)]
pub enum StarterToLeader {
    /// The command that was to start this node has ended.
    Ended { node: u32, status: i32 },
}

/// Message of a leader on its standard output.
#[derive(Debug, Encode, Decode)]
pub enum LeaderToStarter {
    /// The leader listens for other nodes at this port.
    Port(u16),
    /// The leader does not wait for this node any more.
    Lost {
        node: u32,
        /// True if the job goes on without the node.
        goes_on: bool,
    },
    /// This node was drained, and has no process of the job any more.
    Drained { node: u32 },
}
