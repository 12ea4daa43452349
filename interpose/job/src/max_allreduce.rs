//! Max-allreduce over all workers that does not block.
//!
//! A worker sends its current maximum in each round to the workers at 1, 2 and 3 times a power of
//! four above it, and receives from those equally far below. After the last round the values of all
//! workers have reached every worker, directly or indirectly (dissemination, Hensgen, Finkel,
//! Manber 1988). Values that arrive repeatedly do not change a maximum.
#![allow(unsafe_code)]

use crate::control_messages::{self, InFlightBuffer, Peer};
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::{RealComm, RealRequest};
use understudy_numbers::Worker;

/// Numbers of which the maxima are computed, one by one.
pub type Numbers = [i64; 4];

/// Greatest number of workers to which a worker sends in a round.
const PEERS: u32 = 3;
/// Limit that no job reaches: 4¹⁶ is more than the number of ranks.
const MAX_ROUNDS: usize = 16;
const MAX_MESSAGES: usize = MAX_ROUNDS * PEERS as usize;

/// Buffers for the library, which must not move while a message is in flight.
struct MessageBuffers {
    /// Sent numbers, by round.
    sent: [Numbers; MAX_ROUNDS],
    /// Received numbers, by message.
    received: [Numbers; MAX_MESSAGES],
}

/// Max-allreduce in progress.
pub struct MaxAllreduce {
    memory: InFlightBuffer<Box<MessageBuffers>>,
    comm: RealComm,
    tag: c_int,
    me: Worker,
    workers: u32,
    best: Numbers,
    /// Round whose messages are awaited.
    round: u32,
    sends: Vec<RealRequest>,
    /// Receives of all rounds, posted at the start.
    receives: Vec<RealRequest>,
}

/// Returns the distances of the workers that exchange messages in a round.
fn distances(round: u32, workers: u32) -> impl Iterator<Item = u32> {
    let step = (PEERS as u64 + 1).pow(round);
    (1..=PEERS as u64)
        .map(move |times| times * step)
        .take_while(move |&distance| distance < u64::from(workers))
        .map(|distance| distance as u32)
}

/// Returns all workers to which a worker sends in any round.
///
/// A message that each receiver forwards to these workers reaches all workers.
pub fn peers_of(me: Worker, workers: u32) -> impl Iterator<Item = Worker> {
    let rounds = (0..).take_while(move |&round| distances(round, workers).next().is_some());
    let all = rounds.flat_map(move |round| distances(round, workers));
    all.map(move |distance| {
        Worker(((u64::from(me.0) + u64::from(distance)) % u64::from(workers)) as u32)
    })
}

impl Default for MessageBuffers {
    fn default() -> MessageBuffers {
        MessageBuffers {
            sent: [[0; 4]; MAX_ROUNDS],
            received: [[0; 4]; MAX_MESSAGES],
        }
    }
}

impl MaxAllreduce {
    /// Returns a reduction with this worker's numbers; no message is sent yet.
    pub fn new(
        comm: RealComm,
        tag: c_int,
        (me, workers): (Worker, u32),
        numbers: Numbers,
    ) -> MaxAllreduce {
        MaxAllreduce {
            memory: InFlightBuffer::new(Box::default()),
            comm,
            tag,
            me,
            workers,
            best: numbers,
            round: 0,
            sends: Vec::new(),
            receives: Vec::new(),
        }
    }

    /// Starts the reduction.
    ///
    /// # Errors
    /// The library's error; other workers may have received a message of this worker.
    pub fn start(&mut self) -> mpi::Result<()> {
        self.post_receives()?;
        self.send_round()
    }

    /// Returns the worker that is `distance` above this one, modulo the number of workers.
    fn peer(&self, distance: u32) -> Peer {
        Peer {
            comm: self.comm,
            rank: Worker((self.me.0 + distance) % self.workers),
            tag: self.tag,
        }
    }

    fn post_receives(&mut self) -> mpi::Result<()> {
        let rounds = (0..).take_while(|&round| distances(round, self.workers).next().is_some());
        for distance in rounds.flat_map(|round| distances(round, self.workers)) {
            let from = self.peer(self.workers - distance);
            let into = (&raw mut self.memory.received[self.receives.len()]).cast();
            // SAFETY: the memory stays in place until the request is complete, and is read after
            // that.
            unsafe {
                control_messages::receive(into, size_of::<Numbers>(), from, &mut self.receives)
            }?;
        }
        Ok(())
    }

    /// Sends the current maximum to this round's peers.
    fn send_round(&mut self) -> mpi::Result<()> {
        for distance in distances(self.round, self.workers) {
            let to = self.peer(distance);
            let sent = &mut self.memory.sent[self.round as usize];
            *sent = self.best;
            let sent = sent.as_ptr().cast();
            // SAFETY: the memory stays in place, and numbers sent in a round do not change any
            // more.
            unsafe { control_messages::send(sent, size_of::<Numbers>(), to, &mut self.sends) }?;
        }
        Ok(())
    }

    /// Cancels the reduction and its outstanding receives.
    pub fn cancel(mut self) {
        control_messages::cancel(&mut self.receives);
    }

    /// True if later rounds must send messages, so that the reduction needs polling.
    pub fn needs_polling(&self) -> bool {
        distances(self.round + 1, self.workers).next().is_some()
    }

    /// Advances the reduction as far as possible.
    ///
    /// Returns the maxima when all messages are complete.
    ///
    /// # Errors
    /// The library's error.
    pub fn poll(&mut self) -> mpi::Result<Option<Numbers>> {
        loop {
            let first = (self.round * PEERS) as usize;
            let count = distances(self.round, self.workers).count();
            if count == 0 {
                if !control_messages::test(&mut self.sends)? {
                    return Ok(None);
                }
                self.memory.complete();
                return Ok(Some(self.best));
            }
            if !control_messages::test(&mut self.receives[first..first + count])? {
                return Ok(None);
            }
            for received in &self.memory.received[first..first + count] {
                self.best = std::array::from_fn(|index| self.best[index].max(received[index]));
            }
            self.round += 1;
            self.send_round()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_round_all_values_have_reached_all_workers() {
        for workers in 1..200u32 {
            // Distances of the workers whose value worker 0 has; by symmetry all other workers are
            // equal.
            let mut known = vec![false; workers as usize];
            known[0] = true;
            let mut round = 0;
            while distances(round, workers).next().is_some() {
                let before = known.clone();
                for distance in distances(round, workers) {
                    for (at, _) in before.iter().enumerate().filter(|(_, known)| **known) {
                        known[(at + distance as usize) % workers as usize] = true;
                    }
                }
                round += 1;
            }
            assert!(known.iter().all(|&known| known), "{workers} workers");
        }
    }

    #[test]
    fn only_the_last_round_has_fewer_messages() {
        // `poll` computes the index of a round's receives from its number.
        for workers in 1..2000 {
            let counts: Vec<usize> = (0..)
                .map(|round| distances(round, workers).count())
                .take_while(|&count| count > 0)
                .collect();
            let whole = counts.len().saturating_sub(1);
            assert!(
                counts[..whole].iter().all(|&count| count == PEERS as usize),
                "{counts:?}"
            );
        }
        assert!(
            (0..=MAX_ROUNDS as u32).any(|round| distances(round, i32::MAX as u32).next().is_none())
        );
    }
}
