//! Max-allreduce over all workers that does not block.
//!
//! A worker sends its current maximum in each round to the workers at 1, 2 and 3 times a power of
//! four above it, and receives from those equally far below. After the last round the values of all
//! workers have reached every worker, directly or indirectly (dissemination, Hensgen, Finkel,
//! Manber 1988). Values that arrive repeatedly do not change a maximum.

use crate::control_messages::{InFlightSet, Peer};
use std::collections::VecDeque;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Numbers of which the maxima are computed, one by one.
pub type Numbers = [i64; 4];

/// Greatest number of workers to which a worker sends in a round.
const PEERS: u32 = 3;

/// Max-allreduce in progress.
pub struct MaxAllreduce {
    comm: RealComm,
    tag: c_int,
    me: Worker,
    workers: u32,
    best: Numbers,
    /// Round whose messages are awaited.
    round: u32,
    sends: InFlightSet<Vec<Numbers>>,
    /// Receives of the awaited and later rounds, posted at the start.
    receives: VecDeque<InFlightSet<Vec<Numbers>>>,
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

impl MaxAllreduce {
    /// Returns a reduction with this worker's numbers; no message is sent yet.
    pub fn new(
        comm: RealComm,
        tag: c_int,
        (me, workers): (Worker, u32),
        numbers: Numbers,
    ) -> MaxAllreduce {
        MaxAllreduce {
            comm,
            tag,
            me,
            workers,
            best: numbers,
            round: 0,
            sends: InFlightSet::default(),
            receives: VecDeque::new(),
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
        for round in rounds {
            let mut receives = InFlightSet::default();
            for distance in distances(round, self.workers) {
                let from = self.peer(self.workers - distance);
                receives.receive(from, vec![Numbers::default()])?;
            }
            self.receives.push_back(receives);
        }
        Ok(())
    }

    /// Sends the current maximum to this round's peers.
    fn send_round(&mut self) -> mpi::Result<()> {
        let to: Vec<Peer> = distances(self.round, self.workers)
            .map(|distance| self.peer(distance))
            .collect();
        self.sends.send(to, vec![self.best])
    }

    /// Cancels the reduction and its outstanding receives.
    pub fn cancel(self) {
        self.receives.into_iter().for_each(InFlightSet::cancel);
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
        while let Some(receives) = self.receives.front_mut() {
            let Some(received) = receives.poll()? else {
                return Ok(None);
            };
            for numbers in received.iter().flatten() {
                self.best = std::array::from_fn(|index| self.best[index].max(numbers[index]));
            }
            self.receives.pop_front();
            self.round += 1;
            self.send_round()?;
        }
        Ok(self.sends.poll()?.map(|_| self.best))
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
}
