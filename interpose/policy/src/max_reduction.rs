//! Maximum over all workers, in rounds of messages.
//!
//! The rounds are numbered from 0. During round r, each worker sends its current maximum to the
//! workers whose numbers are higher by 4ʳ, 2 · 4ʳ and 3 · 4ʳ (modulo the number of workers), and
//! receives from the workers equally far below. After the last round the numbers of all workers
//! have reached every worker, directly or indirectly (dissemination: Hensgen, Finkel, Manber 1988).
//! A number that arrives repeatedly does not change a maximum.
//!
//! The module computes the destinations and the numbers; it sends no messages.

use understudy_numbers::Worker;

/// Numbers of which the maxima are computed, one by one.
pub type Numbers = [i64; 4];

/// Greatest number of workers to which a worker sends in a round.
pub const MAX_PEERS: usize = 3;

/// Returns the distances of the workers that exchange messages in a round.
fn distances(round: u32, workers: u32) -> impl Iterator<Item = u32> {
    let step = (MAX_PEERS as u64 + 1).pow(round);
    (1..=MAX_PEERS as u64)
        .map(move |times| times * step)
        .take_while(move |&distance| distance < u64::from(workers))
        .map(|distance| distance as u32)
}

/// Returns the worker at a distance above another worker, modulo the number of workers.
fn above(worker: Worker, distance: u32, workers: u32) -> Worker {
    Worker(((u64::from(worker.0) + u64::from(distance)) % u64::from(workers)) as u32)
}

/// Returns all workers to which a worker sends in any round.
///
/// A message that each receiver forwards to these workers reaches all workers.
pub fn destinations_of_all_rounds(me: Worker, workers: u32) -> impl Iterator<Item = Worker> {
    let rounds = (0..).take_while(move |&round| distances(round, workers).next().is_some());
    let all = rounds.flat_map(move |round| distances(round, workers));
    all.map(move |distance| above(me, distance, workers))
}

/// Next step of a worker in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionAction {
    /// Send [`MaxReduction::numbers`] to the destinations of this round, and receive from its
    /// sources.
    Exchange { round: u32 },
    /// The reduction is over; these are the maxima over all workers.
    End(Numbers),
}

/// State of one worker in a reduction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaxReduction {
    me: Worker,
    workers: u32,
    maxima: Numbers,
    round: u32,
}

impl MaxReduction {
    /// Returns a reduction with the numbers of this worker, in round 0.
    pub fn new(me: Worker, workers: u32, numbers: Numbers) -> MaxReduction {
        MaxReduction {
            me,
            workers,
            maxima: numbers,
            round: 0,
        }
    }

    /// Returns the numbers that this worker sends in the present round.
    pub fn numbers(&self) -> Numbers {
        self.maxima
    }

    /// Returns the workers to which this worker sends in a round.
    ///
    /// Empty after the last round.
    pub fn destinations(&self, round: u32) -> impl Iterator<Item = Worker> + use<> {
        let (me, workers) = (self.me, self.workers);
        distances(round, workers).map(move |distance| above(me, distance, workers))
    }

    /// Returns the workers from which this worker receives in a round.
    ///
    /// Empty after the last round.
    pub fn sources(&self, round: u32) -> impl Iterator<Item = Worker> + use<> {
        let (me, workers) = (self.me, self.workers);
        distances(round, workers).map(move |distance| above(me, workers - distance, workers))
    }

    /// Returns the present step.
    pub fn action(&self) -> ReductionAction {
        match distances(self.round, self.workers).next() {
            Some(_) => ReductionAction::Exchange { round: self.round },
            None => ReductionAction::End(self.maxima),
        }
    }

    /// Ends the present round with the numbers that its sources have sent.
    pub fn end_round<'a>(
        &mut self,
        received: impl IntoIterator<Item = &'a Numbers>,
    ) -> ReductionAction {
        for numbers in received {
            self.maxima = std::array::from_fn(|index| self.maxima[index].max(numbers[index]));
        }
        self.round += 1;
        self.action()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of rounds that no job reaches: 4¹⁶ is more than the number of ranks.
    const MAX_ROUNDS: u32 = 16;

    /// Runs the reduction of all workers in lockstep; returns each worker's result.
    fn reduce(workers: u32) -> Vec<Numbers> {
        let own = |me: Worker| [i64::from(me.0), -i64::from(me.0), 7, i64::from(me.0 % 3)];
        let mut all: Vec<MaxReduction> = Worker::all(workers)
            .map(|me| MaxReduction::new(me, workers, own(me)))
            .collect();
        while let ReductionAction::Exchange { round } = all[0].action() {
            let sent: Vec<Numbers> = all.iter().map(MaxReduction::numbers).collect();
            for worker in &mut all {
                let received: Vec<Numbers> = worker
                    .sources(round)
                    .map(|source| sent[source.index()])
                    .collect();
                worker.end_round(&received);
            }
        }
        all.iter()
            .map(|worker| match worker.action() {
                ReductionAction::End(maxima) => maxima,
                action => panic!("{action:?}"),
            })
            .collect()
    }

    #[test]
    fn all_workers_get_the_maxima_of_all() {
        for workers in 1..200u32 {
            let last = i64::from(workers) - 1;
            let expected = [last, 0, 7, last.min(2)];
            assert!(
                reduce(workers).iter().all(|maxima| *maxima == expected),
                "{workers} workers"
            );
        }
    }

    #[test]
    fn a_source_sends_to_this_worker_in_the_same_round() {
        for workers in [1, 2, 3, 5, 16, 17, 100] {
            for me in Worker::all(workers) {
                let reduction_of = |worker| MaxReduction::new(worker, workers, [0; 4]);
                for round in 0..MAX_ROUNDS {
                    for source in reduction_of(me).sources(round) {
                        assert!(
                            reduction_of(source)
                                .destinations(round)
                                .any(|worker| worker == me)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_worker_of_100_000_sends_25_messages() {
        let reduction = MaxReduction::new(Worker(99_999), 100_000, [0; 4]);
        let messages: usize = (0..MAX_ROUNDS)
            .map(|round| reduction.destinations(round).count())
            .sum();
        assert_eq!(messages, 25);
        assert_eq!(
            destinations_of_all_rounds(Worker(5), 100_000).count(),
            messages
        );
    }

    #[test]
    fn only_the_last_round_has_fewer_messages() {
        for workers in 1..2000 {
            let counts: Vec<usize> = (0..)
                .map(|round| distances(round, workers).count())
                .take_while(|&count| count > 0)
                .collect();
            let full_rounds = counts.len().saturating_sub(1);
            assert!(
                counts[..full_rounds]
                    .iter()
                    .all(|&count| count == MAX_PEERS),
                "{counts:?}"
            );
        }
        assert!((0..=MAX_ROUNDS).any(|round| distances(round, i32::MAX as u32).next().is_none()));
    }
}
