//! What a manager of a job on several nodes is told by what has started it, and answers.

use bincode::{Decode, Encode};

/// What the manager of a job on several nodes is there for; comes by its standard input.
#[derive(Debug, Encode, Decode)]
pub enum Duty {
    /// It leads those of the other nodes, whose hosts have these names.
    Lead { token: Vec<u8>, others: Vec<String> },
    /// It is another node's, and calls the leader at one of these addresses.
    Follow {
        token: Vec<u8>,
        node: u32,
        leader: Vec<String>,
    },
}

/// What a leader is told later.
#[derive(Debug, Encode, Decode)]
pub enum StarterToLeader {
    /// What was to start this node has ended.
    Ended { node: u32, status: i32 },
}

/// What a leader says, by its standard output.
#[derive(Debug, Encode, Decode)]
pub enum LeaderToStarter {
    Port(u16),
    /// It does not wait for this node any more.
    Lost(u32),
}
