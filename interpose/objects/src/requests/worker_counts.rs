//! Numbers of messages exchanged with each worker.

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use understudy_numbers::Worker;

/// Number of messages for each worker.
///
/// A cut and a checkpoint process the workers with messages only, whose number does not grow with
/// the job.
#[derive(Clone, Debug)]
pub struct WorkerCounts {
    counts: Vec<u64>,
    /// Workers whose count is not zero, in the order of their first messages.
    used: Vec<Worker>,
}

impl WorkerCounts {
    /// Counts for no workers.
    pub const NONE: WorkerCounts = WorkerCounts {
        counts: Vec::new(),
        used: Vec::new(),
    };

    /// Returns counts of zero for this many workers.
    pub fn new(workers: u32) -> WorkerCounts {
        WorkerCounts {
            counts: vec![0; workers as usize],
            used: Vec::new(),
        }
    }

    /// Counts a message.
    #[inline]
    pub fn add(&mut self, worker: Worker) {
        if let Some(count) = self.counts.get_mut(worker.index()) {
            if *count == 0 {
                self.used.push(worker);
            }
            *count += 1;
        }
    }

    /// Returns the count of a worker.
    pub fn get(&self, worker: Worker) -> u64 {
        self.counts.get(worker.index()).copied().unwrap_or(0)
    }

    /// Iterates over the workers whose count is not zero.
    pub fn used(&self) -> impl Iterator<Item = (Worker, u64)> {
        self.used.iter().map(|&worker| (worker, self.get(worker)))
    }

    /// Resets all counts to zero.
    pub fn reset(&mut self) {
        for worker in self.used.drain(..) {
            self.counts[worker.index()] = 0;
        }
    }
}

impl Encode for WorkerCounts {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let used: Vec<(Worker, u64)> = self.used().collect();
        (self.counts.len() as u32, used).encode(encoder)
    }
}

impl<Context> Decode<Context> for WorkerCounts {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<WorkerCounts, DecodeError> {
        let (workers, used) = <(u32, Vec<(Worker, u64)>)>::decode(decoder)?;
        let mut counts = WorkerCounts::new(workers);
        for (worker, count) in used {
            let place = counts.counts.get_mut(worker.index());
            *place.ok_or(DecodeError::Other("a worker that does not exist"))? = count;
            counts.used.push(worker);
        }
        Ok(counts)
    }
}

bincode::impl_borrow_decode!(WorkerCounts);

#[cfg(test)]
mod tests {
    use super::*;
    use bincode::config::standard;

    #[test]
    fn only_workers_with_messages_are_visited_and_encoded() {
        const WORKERS: u32 = 1_000_000;
        let mut counts = WorkerCounts::new(WORKERS);
        for worker in [7, 999_999, 7, WORKERS] {
            counts.add(Worker(worker));
        }
        let expected = [(Worker(7), 2), (Worker(999_999), 1)];
        assert!(counts.used().eq(expected));
        let bytes = bincode::encode_to_vec(&counts, standard()).unwrap();
        assert!(bytes.len() < 20, "{bytes:?}");
        let (mut decoded, _) =
            bincode::decode_from_slice::<WorkerCounts, _>(&bytes, standard()).unwrap();
        assert!(decoded.used().eq(expected));
        decoded.reset();
        assert_eq!((decoded.used().count(), decoded.get(Worker(7))), (0, 0));
        decoded.add(Worker(7));
        assert_eq!(decoded.get(Worker(7)), 1);
    }
}
