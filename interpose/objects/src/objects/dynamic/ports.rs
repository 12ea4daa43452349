//! Ports, published names, and messages for establishing connections. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::Worker;

/// Message from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum ConnectionMessage {
    /// Request to the owner of a port for a connection.
    ConnectRequest {
        port: u64,
        /// Number of the attempt.
        attempt: u64,
        /// Earliest attempt of this process that is not answered.
        oldest: u64,
    },
    /// Answer to an attempt: the owner of the port accepts.
    ConnectAccepted { attempt: u64 },
    /// Result that the root sends to the other members of its communicator.
    ConnectResult {
        /// `uid` of that communicator.
        comm: u64,
        /// Rank of the remote root, or an error.
        outcome: Result<Worker, i32>,
    },
}

impl ConnectionMessage {
    /// Returns the port to which a connection is requested.
    pub fn requested_port(&self) -> Option<u64> {
        match self {
            ConnectionMessage::ConnectRequest { port, .. } => Some(*port),
            _ => None,
        }
    }
}

/// Remote root and the number that the roots share for the connection, or an error.
pub type FoundPeer = Result<(Worker, u64), i32>;

/// Progress of a call that establishes a connection (`MPI_Comm_connect`, `_accept`, `_join`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ConnectProgress {
    /// Process at the other end of the socket of `MPI_Comm_join`.
    pub join_peer: Option<Worker>,
    /// Number of the attempt that was sent to the port's owner.
    pub attempt: Option<u64>,
    /// Result, once the root has found the other side's root.
    pub found: Option<FoundPeer>,
}

/// Ports, names and accepted attempts of a worker, which other processes can always read.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct PublicBoard {
    pub ports: BTreeSet<u64>,
    /// Names that the worker has published, and their ports.
    pub names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Attempts that this worker has accepted: the connecting worker and the attempt's number.
    ///
    /// The connecting worker may not have received the answer.
    pub accepted: BTreeSet<(u32, u64)>,
}

/// Ports of this process, and the messages that it has received.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ConnectionState {
    /// Data that the other processes can read.
    pub board: PublicBoard,
    /// Number of the port that was opened last.
    last_port: u32,
    /// Number of the last attempt to connect.
    pub last_attempt: u64,
    /// Number of spawns in which this process has taken part.
    pub spawns: u64,
    /// Number of processes other than workers that this process has encountered.
    ///
    /// Includes processes that do not exist any more.
    pub known_spawned: u32,
    /// Spawned processes that were disconnected, but are still members of freed communicators.
    ///
    /// Empty at a cut.
    pub disconnected: BTreeSet<Worker>,
    /// Progress of incomplete calls, by thread (address of its control block).
    ///
    /// A call is repeated from its entry until it is complete.
    pub in_progress: BTreeMap<usize, ConnectProgress>,
    /// Messages that were received and not consumed, in their order, with their senders.
    received: Vec<(Worker, ConnectionMessage)>,
}

impl ConnectionState {
    /// State at the start of the program.
    pub const NONE: ConnectionState = ConnectionState {
        board: PublicBoard {
            ports: BTreeSet::new(),
            names: BTreeMap::new(),
            accepted: BTreeSet::new(),
        },
        last_port: 0,
        last_attempt: 0,
        spawns: 0,
        known_spawned: 0,
        disconnected: BTreeSet::new(),
        in_progress: BTreeMap::new(),
        received: Vec::new(),
    };

    /// Returns the progress of this thread's call, which is empty if the call begins.
    pub fn progress_of(&mut self, thread: usize) -> &mut ConnectProgress {
        self.in_progress.entry(thread).or_default()
    }

    /// Returns the first attempt to connect that is not answered.
    pub fn oldest(&self) -> Option<u64> {
        self.in_progress
            .values()
            .filter_map(|progress| progress.attempt)
            .min()
    }

    /// Records a message that was received.
    ///
    /// Requests for closed ports are dropped; the senders see on the board that the port is closed.
    pub fn record(&mut self, from: Worker, message: ConnectionMessage) {
        let requested = message.requested_port();
        if requested.is_none_or(|port| self.board.ports.contains(&port)) {
            self.received.push((from, message));
        }
    }

    /// True if a message that matches was received.
    pub fn has(&self, matches: impl Fn(Worker, &ConnectionMessage) -> bool) -> bool {
        self.received
            .iter()
            .any(|(from, message)| matches(*from, message))
    }

    /// Removes and returns the first message that matches.
    pub fn take(
        &mut self,
        matches: impl Fn(Worker, &ConnectionMessage) -> bool,
    ) -> Option<(Worker, ConnectionMessage)> {
        let at = self
            .received
            .iter()
            .position(|(from, message)| matches(*from, message))?;
        Some(self.received.remove(at))
    }

    /// Returns the number of the next port; its upper 32 bits identify the job.
    pub fn next_port(&mut self, job: u64) -> u64 {
        self.last_port += 1;
        (job << 32) | u64::from(self.last_port)
    }

    /// Closes a port; returns false if it was not open.
    pub fn close(&mut self, number: u64) -> bool {
        self.received
            .retain(|(_, message)| message.requested_port() != Some(number));
        self.board.ports.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(port: u64, attempt: u64) -> ConnectionMessage {
        ConnectionMessage::ConnectRequest {
            port,
            attempt,
            oldest: attempt,
        }
    }

    #[test]
    fn messages_are_taken_in_their_order() {
        let mut state = ConnectionState::NONE;
        let port = state.next_port(7);
        state.board.ports.insert(port);
        state.record(Worker(3), request(port, 1));
        state.record(Worker(2), ConnectionMessage::ConnectAccepted { attempt: 5 });
        state.record(Worker(1), request(port, 7));
        let is_request = |_: Worker, message: &ConnectionMessage| {
            matches!(message, ConnectionMessage::ConnectRequest { .. })
        };
        assert_eq!(state.take(is_request), Some((Worker(3), request(port, 1))));
        assert_eq!(state.take(is_request), Some((Worker(1), request(port, 7))));
        assert_eq!(state.take(is_request), None);
        assert!(
            state.has(|_, message| *message == ConnectionMessage::ConnectAccepted { attempt: 5 })
        );
    }

    #[test]
    fn requests_for_a_closed_port_are_dropped_and_its_number_is_not_reused() {
        let mut state = ConnectionState::NONE;
        let first = state.next_port(7);
        state.board.ports.insert(first);
        state.record(Worker(1), request(first, 1));
        assert!(state.close(first) && !state.close(first));
        state.record(Worker(2), request(first, 1));
        assert!(!state.has(|_, _| true));
        assert!(![first, state.next_port(8)].contains(&state.next_port(7)));
    }
}
