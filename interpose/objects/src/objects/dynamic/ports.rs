//! Ports, published names, and messages for establishing connections. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::Worker;

/// Message from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Word {
    /// Request to the owner of a port for a connection.
    Knock {
        port: u64,
        /// Number of the attempt.
        attempt: u64,
        /// First attempt of this process that is not answered.
        oldest: u64,
    },
    /// Answer to an attempt: the owner of the port accepts.
    Welcome { attempt: u64 },
    /// Result that the root sends to the other members of its communicator.
    Go {
        comm: u64,
        /// Rank of the remote root, or an error.
        outcome: Result<Worker, i32>,
    },
}

/// Remote root and the number that the roots share for the connection, or an error.
pub type Found = Result<(Worker, u64), i32>;

/// Progress of a call that establishes a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Begun {
    /// Process at the other end of the socket of `MPI_Comm_join`.
    pub joins: Option<Worker>,
    /// Number of the attempt that was sent to the port's owner.
    pub attempt: Option<u64>,
    /// Result of the root's search.
    pub found: Option<Found>,
}

/// Facts about a worker that the processes of its node can always read.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Board {
    pub ports: BTreeSet<u64>,
    /// Names that the worker has published, and their ports.
    pub names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Accepted attempts, by worker, of which that worker may not have been notified.
    pub welcomed: BTreeSet<(u32, u64)>,
}

/// Ports of this process, and the messages that it has received.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Dynamic {
    /// Facts that the other processes can read.
    pub board: Board,
    /// Number of the port that was opened last.
    last_port: u32,
    /// Number of the last attempt to connect.
    pub last_attempt: u64,
    /// Number of spawns in which this process has taken part.
    pub spawns: u64,
    /// Number of processes other than workers that this process has encountered.
    ///
    /// Includes processes that do not exist any more.
    pub known: u32,
    /// Spawned processes that were disconnected, though freed communicators lead to them.
    ///
    /// Empty at a cut.
    pub parted: BTreeSet<Worker>,
    /// Progress of incomplete calls, by thread (address of its control block).
    ///
    /// A call is repeated from its entry until it is complete.
    pub begun: BTreeMap<usize, Begun>,
    /// Messages that were received and not used, in their order, with their senders.
    heard: Vec<(Worker, Word)>,
}

impl Dynamic {
    /// State at the start of the program.
    pub const NONE: Dynamic = Dynamic {
        board: Board {
            ports: BTreeSet::new(),
            names: BTreeMap::new(),
            welcomed: BTreeSet::new(),
        },
        last_port: 0,
        last_attempt: 0,
        spawns: 0,
        known: 0,
        parted: BTreeSet::new(),
        begun: BTreeMap::new(),
        heard: Vec::new(),
    };

    /// Returns the progress of this thread's call.
    pub fn begun(&mut self, thread: usize) -> &mut Begun {
        self.begun.entry(thread).or_default()
    }

    /// Returns the first attempt to connect that is not answered.
    pub fn oldest(&self) -> Option<u64> {
        self.begun.values().filter_map(|begun| begun.attempt).min()
    }

    /// Records a message that was received.
    ///
    /// Requests for closed ports are dropped; their senders detect this on the board.
    pub fn hear(&mut self, from: Worker, word: Word) {
        if !matches!(word, Word::Knock { port, .. } if !self.board.ports.contains(&port)) {
            self.heard.push((from, word));
        }
    }

    /// True if such a message was received.
    pub fn has(&self, is_it: impl Fn(Worker, &Word) -> bool) -> bool {
        self.heard.iter().any(|(from, word)| is_it(*from, word))
    }

    /// Removes and returns the first such message.
    pub fn take(&mut self, is_it: impl Fn(Worker, &Word) -> bool) -> Option<(Worker, Word)> {
        let at = self
            .heard
            .iter()
            .position(|(from, word)| is_it(*from, word))?;
        Some(self.heard.remove(at))
    }

    /// Returns the number of the next port, one half of which identifies the job.
    pub fn number(&mut self, job: u64) -> u64 {
        self.last_port += 1;
        (job << 32) | u64::from(self.last_port)
    }

    /// Closes a port; returns false if it was not open.
    pub fn close(&mut self, number: u64) -> bool {
        self.heard
            .retain(|(_, word)| !matches!(word, Word::Knock { port, .. } if *port == number));
        self.board.ports.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knock(port: u64, attempt: u64) -> Word {
        Word::Knock {
            port,
            attempt,
            oldest: attempt,
        }
    }

    #[test]
    fn words_are_taken_in_their_order() {
        let mut state = Dynamic::NONE;
        let port = state.number(7);
        state.board.ports.insert(port);
        state.hear(Worker(3), knock(port, 1));
        state.hear(Worker(2), Word::Welcome { attempt: 5 });
        state.hear(Worker(1), knock(port, 7));
        let at_it = |_: Worker, word: &Word| matches!(word, Word::Knock { .. });
        assert_eq!(state.take(at_it), Some((Worker(3), knock(port, 1))));
        assert_eq!(state.take(at_it), Some((Worker(1), knock(port, 7))));
        assert_eq!(state.take(at_it), None);
        assert!(state.has(|_, word| *word == Word::Welcome { attempt: 5 }));
    }

    #[test]
    fn a_closed_port_is_not_knocked_at_and_its_number_does_not_come_again() {
        let mut state = Dynamic::NONE;
        let first = state.number(7);
        state.board.ports.insert(first);
        state.hear(Worker(1), knock(first, 1));
        assert!(state.close(first) && !state.close(first));
        state.hear(Worker(2), knock(first, 1));
        assert!(!state.has(|_, _| true));
        assert!(![first, state.number(8)].contains(&state.number(7)));
    }
}
