//! Ports, published names, and messages by which processes connect. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::Worker;

/// Message from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Word {
    /// To the owner of a port: a process wants to connect.
    Knock {
        port: u64,
        /// Number of the attempt.
        attempt: u64,
        /// The first attempt of this process that is not answered.
        oldest: u64,
    },
    /// The answer to an attempt: the owner of the port accepts.
    Welcome { attempt: u64 },
    /// The root tells the other members of its communicator.
    Go {
        comm: u64,
        /// Rank of the other side's root, or an error.
        outcome: Result<Worker, i32>,
    },
}

/// Root of the other side, and the roots' common name of the connection; or an error.
pub type Found = Result<(Worker, u64), i32>;

/// Progress of a call that makes a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Begun {
    /// Process at the other end of the socket of `MPI_Comm_join`.
    pub joins: Option<Worker>,
    /// The attempt that the port's owner has been told of.
    pub attempt: Option<u64>,
    /// Result of the root's search.
    pub found: Option<Found>,
}

/// Facts about a worker that the processes of its node can always read.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Board {
    pub ports: BTreeSet<u64>,
    /// Names that it has published, and the ports.
    pub names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Attempts that were welcomed, by worker, of which that worker may not know.
    pub welcomed: BTreeSet<(u32, u64)>,
}

/// The ports of this process, and what it has heard.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Dynamic {
    /// Facts that the other processes can read.
    pub board: Board,
    /// The number of the port that was opened last.
    last_port: u32,
    /// The number of the last attempt to connect.
    pub last_attempt: u64,
    /// Number of spawns that this process has made or taken part in.
    pub spawns: u64,
    /// Number of processes, past ones included, that are known here and are no workers.
    pub known: u32,
    /// Spawned processes that were disconnected, though freed communicators lead to them.
    ///
    /// Empty at a cut.
    pub parted: BTreeSet<Worker>,
    /// Calls that have begun, by thread (its control block).
    ///
    /// A call is made again from its entry until it has ended.
    pub begun: BTreeMap<usize, Begun>,
    /// Messages that were received and not used, in their order, with their senders.
    heard: Vec<(Worker, Word)>,
}

impl Dynamic {
    /// At the start of the program.
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

    /// The first attempt to connect that is not answered.
    pub fn oldest(&self) -> Option<u64> {
        self.begun.values().filter_map(|begun| begun.attempt).min()
    }

    /// Records a message that was received.
    ///
    /// A process that knocks at a closed port finds that out from the board.
    pub fn hear(&mut self, from: Worker, word: Word) {
        if !matches!(word, Word::Knock { port, .. } if !self.board.ports.contains(&port)) {
            self.heard.push((from, word));
        }
    }

    /// True if such a message was received.
    pub fn has(&self, is_it: impl Fn(Worker, &Word) -> bool) -> bool {
        self.heard.iter().any(|(from, word)| is_it(*from, word))
    }

    /// The first such word.
    pub fn take(&mut self, is_it: impl Fn(Worker, &Word) -> bool) -> Option<(Worker, Word)> {
        let at = self
            .heard
            .iter()
            .position(|(from, word)| is_it(*from, word))?;
        Some(self.heard.remove(at))
    }

    /// A number for the next port, half of which tells the job.
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
