//! A maximum over all workers that nobody waits for, by messages of our own.
//!
//! In each round a worker tells what it knows to the workers at 1, 2 and 3 times a power of four
//! above it, and hears from those as far below; after the last round everybody has heard, at second
//! hand or better, from everybody (dissemination, Hensgen, Finkel, Manber 1988). A value that comes
//! twice does no harm to a maximum.
#![allow(unsafe_code)]

use crate::own_messages::{self, Lent, Peer};
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::{RealComm, RealRequest};
use understudy_numbers::Worker;

/// What is compared, number by number.
pub type Numbers = [i64; 4];

/// A worker tells this many others in a round, if there are so many.
const PEERS: u32 = 3;
/// No job has so many workers that it takes more rounds: 4¹⁶ is more than there are ranks.
const MAX_ROUNDS: usize = 16;
const MAX_MESSAGES: usize = MAX_ROUNDS * PEERS as usize;

/// What the library reads from and writes to: it must not move while a message is under way.
struct Memory {
    /// What is told, by round.
    told: [Numbers; MAX_ROUNDS],
    /// What is heard, by message.
    heard: [Numbers; MAX_MESSAGES],
}

/// A maximum under way.
pub struct Rounds {
    memory: Lent<Box<Memory>>,
    comm: RealComm,
    tag: c_int,
    me: Worker,
    workers: u32,
    best: Numbers,
    /// The round whose messages are awaited.
    round: u32,
    sends: Vec<RealRequest>,
    /// The receives of all rounds, posted at the start.
    receives: Vec<RealRequest>,
}

/// How far apart those are that talk to each other in a round.
fn distances(round: u32, workers: u32) -> impl Iterator<Item = u32> {
    let step = (PEERS as u64 + 1).pow(round);
    (1..=PEERS as u64)
        .map(move |times| times * step)
        .take_while(move |&distance| distance < u64::from(workers))
        .map(|distance| distance as u32)
}

/// Whom a worker tells in all rounds together: what each of these tells on in the same way gets to
/// everybody.
pub fn peers_of(me: Worker, workers: u32) -> impl Iterator<Item = Worker> {
    let rounds = (0..).take_while(move |&round| distances(round, workers).next().is_some());
    let all = rounds.flat_map(move |round| distances(round, workers));
    all.map(move |distance| {
        Worker(((u64::from(me.0) + u64::from(distance)) % u64::from(workers)) as u32)
    })
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            told: [[0; 4]; MAX_ROUNDS],
            heard: [[0; 4]; MAX_MESSAGES],
        }
    }
}

impl Rounds {
    /// With this worker's numbers; nothing is said yet.
    pub fn new(
        comm: RealComm,
        tag: c_int,
        (me, workers): (Worker, u32),
        numbers: Numbers,
    ) -> Rounds {
        Rounds {
            memory: Lent::new(Box::default()),
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

    /// Starts.
    ///
    /// # Errors
    /// The library's; others may have heard of this worker.
    pub fn start(&mut self) -> mpi::Result<()> {
        self.listen()?;
        self.tell()
    }

    /// Who stands `distance` above (or, counted the other way, below) this worker.
    fn peer(&self, distance: u32) -> Peer {
        Peer {
            comm: self.comm,
            rank: Worker((self.me.0 + distance) % self.workers),
            tag: self.tag,
        }
    }

    fn listen(&mut self) -> mpi::Result<()> {
        let rounds = (0..).take_while(|&round| distances(round, self.workers).next().is_some());
        for distance in rounds.flat_map(|round| distances(round, self.workers)) {
            let from = self.peer(self.workers - distance);
            let into = (&raw mut self.memory.heard[self.receives.len()]).cast();
            // SAFETY: the memory stays in place until the request has ended, and is looked at when
            // it has.
            unsafe { own_messages::receive(into, size_of::<Numbers>(), from, &mut self.receives) }?;
        }
        Ok(())
    }

    /// Tells this round's peers what is known.
    fn tell(&mut self) -> mpi::Result<()> {
        for distance in distances(self.round, self.workers) {
            let to = self.peer(distance);
            let told = &mut self.memory.told[self.round as usize];
            *told = self.best;
            let told = told.as_ptr().cast();
            // SAFETY: the memory stays in place; what is told in a round does not change any more.
            unsafe { own_messages::send(told, size_of::<Numbers>(), to, &mut self.sends) }?;
        }
        Ok(())
    }

    /// Nobody looks at it any more: what has not come is not received.
    pub fn cancel(mut self) {
        own_messages::cancel(&mut self.receives);
    }

    /// Whether more is to be told when more has been heard: such rounds need to be polled.
    pub fn needs_help(&self) -> bool {
        distances(self.round + 1, self.workers).next().is_some()
    }

    /// Goes as far as it can. The numbers of all workers' maximum when every message has ended; an
    /// error if something failed.
    pub fn poll(&mut self) -> mpi::Result<Option<Numbers>> {
        loop {
            let first = (self.round * PEERS) as usize;
            let count = distances(self.round, self.workers).count();
            if count == 0 {
                if !own_messages::test(&mut self.sends)? {
                    return Ok(None);
                }
                self.memory.give_back();
                return Ok(Some(self.best));
            }
            if !own_messages::test(&mut self.receives[first..first + count])? {
                return Ok(None);
            }
            for heard in &self.memory.heard[first..first + count] {
                self.best = std::array::from_fn(|index| self.best[index].max(heard[index]));
            }
            self.round += 1;
            self.tell()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_round_everybody_has_heard_from_everybody() {
        for workers in 1..200u32 {
            // What worker 0 knows by how far below it stands who said it; all others stand alike.
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
        // `poll` finds a round's receives by its number.
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
