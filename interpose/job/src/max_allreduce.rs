//! Max-allreduce over all workers that does not block.
//!
//! [`understudy_policy::max_reduction`] determines the rounds; this module exchanges their
//! messages.

use crate::control_messages::{InFlightSet, Peer};
use std::collections::VecDeque;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
use understudy_policy::max_reduction::{MaxReduction, ReductionAction};
pub use understudy_policy::max_reduction::{Numbers, destinations_of_all_rounds};

/// Max-allreduce in progress.
pub struct MaxAllreduce {
    comm: RealComm,
    tag: c_int,
    reduction: MaxReduction,
    sends: InFlightSet<Vec<Numbers>>,
    /// Receives of the awaited and later rounds, posted at the start.
    receives: VecDeque<InFlightSet<Vec<Numbers>>>,
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
            reduction: MaxReduction::new(me, workers, numbers),
            sends: InFlightSet::default(),
            receives: VecDeque::new(),
        }
    }

    /// Starts the reduction.
    ///
    /// # Errors
    /// Fails if a procedure of the MPI library fails; other workers may have received a message of
    /// this worker.
    pub fn start(&mut self) -> mpi::Result<()> {
        for round in 0.. {
            let mut receives = InFlightSet::default();
            for source in self.reduction.sources(round) {
                receives.receive(self.peer(source), vec![Numbers::default()])?;
            }
            if receives.is_empty() {
                break;
            }
            self.receives.push_back(receives);
        }
        self.send(self.reduction.action())
    }

    fn peer(&self, rank: Worker) -> Peer {
        Peer {
            comm: self.comm,
            rank,
            tag: self.tag,
        }
    }

    /// Sends the numbers of this round, unless the reduction has ended.
    fn send(&mut self, action: ReductionAction) -> mpi::Result<()> {
        let ReductionAction::Exchange { round } = action else {
            return Ok(());
        };
        let destinations = self.reduction.destinations(round);
        let to: Vec<Peer> = destinations.map(|rank| self.peer(rank)).collect();
        self.sends.send(to, vec![self.reduction.numbers()])
    }

    /// Cancels the reduction and its outstanding receives.
    pub fn cancel(self) {
        self.receives.into_iter().for_each(InFlightSet::cancel);
    }

    /// True if later rounds must send messages, so that the reduction needs polling.
    pub fn needs_polling(&self) -> bool {
        self.receives.len() > 1
    }

    /// Advances the reduction as far as possible.
    ///
    /// Returns the maxima when all messages are complete.
    ///
    /// # Errors
    /// Fails if a procedure of the MPI library fails.
    pub fn poll(&mut self) -> mpi::Result<Option<Numbers>> {
        while let Some(receives) = self.receives.front_mut() {
            let Some(received) = receives.poll()? else {
                return Ok(None);
            };
            self.receives.pop_front();
            let action = self.reduction.end_round(received.iter().flatten());
            self.send(action)?;
        }
        let are_sent = self.sends.poll()?.is_some();
        Ok(match self.reduction.action() {
            ReductionAction::End(maxima) if are_sent => Some(maxima),
            _ => None,
        })
    }
}
