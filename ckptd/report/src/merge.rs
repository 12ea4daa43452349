//! Merging of the records of many event files in order of time, with bounded memory.

use crate::Event;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

/// Number of events of one file that are buffered for sorting.
///
/// A rank writes the records of a failure after its recovery, with their original times.
const WINDOW: usize = 32;

/// Iterator over the events of all sources in order of time.
///
/// Events with equal times are in the order of the sources.
pub(super) struct Merge<S> {
    lanes: Vec<Lane<S>>,
    /// Time and lane of the first event of each lane that has an event.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

struct Lane<S> {
    source: S,
    /// The next events, sorted by time.
    window: VecDeque<Event>,
    /// True if the source has returned `None`, so that further calls are avoided.
    is_done: bool,
}

impl<S: Iterator<Item = Event>> Merge<S> {
    pub fn new(sources: impl IntoIterator<Item = S>) -> Self {
        let mut lanes: Vec<_> = sources.into_iter().map(Lane::new).collect();
        let first = |(index, lane): (usize, &mut Lane<S>)| lane.head(index);
        let heads = lanes.iter_mut().enumerate().filter_map(first).collect();
        Self { lanes, heads }
    }

    /// Returns the sources in their order.
    pub fn into_sources(self) -> impl Iterator<Item = S> {
        self.lanes.into_iter().map(|lane| lane.source)
    }
}

impl<S: Iterator<Item = Event>> Iterator for Merge<S> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut head = self.heads.peek_mut()?;
        let index = head.0.1;
        let lane = &mut self.lanes[index];
        let event = lane.window.pop_front();
        lane.refill();
        match lane.head(index) {
            Some(next) => *head = next,
            None => drop(PeekMut::pop(head)),
        }
        event
    }
}

impl<S: Iterator<Item = Event>> Lane<S> {
    fn new(source: S) -> Self {
        let mut lane = Self {
            source,
            window: VecDeque::new(),
            is_done: false,
        };
        while lane.window.len() < WINDOW && !lane.is_done {
            lane.refill();
        }
        lane
    }

    /// Takes one event from the source and inserts it in order.
    fn refill(&mut self) {
        if self.is_done {
            return;
        }
        let Some(event) = self.source.next() else {
            self.is_done = true;
            return;
        };
        let later = self.window.iter().rev();
        let later = later.take_while(|other| other.at_ns > event.at_ns).count();
        self.window.insert(self.window.len() - later, event);
    }

    fn head(&mut self, index: usize) -> Option<Reverse<(u64, usize)>> {
        let first = self.window.front()?;
        Some(Reverse((first.at_ns, index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_formats::events::{Epoch, Kind, ProcessNumber};

    fn event(rank: u32, at_ns: u64) -> Event {
        Event {
            at_ns,
            rank: ProcessNumber(rank),
            epoch: Epoch(0),
            kind: Kind::Kill { signal: 0 },
            frame_bytes: 0,
        }
    }

    #[test]
    fn files_are_merged_by_time_even_if_each_is_a_little_out_of_order() {
        let times: [&[u64]; 3] = [&[1, 5, 4, 5, 9], &[], &[5, 2, 2, 10]];
        let sources = (0..)
            .zip(times)
            .map(|(rank, times)| times.iter().map(move |at| event(rank, *at)));
        let merged: Vec<_> = Merge::new(sources)
            .map(|event| (event.at_ns, event.rank.0))
            .collect();
        let wanted = [
            (1, 0),
            (2, 2),
            (2, 2),
            (4, 0),
            (5, 0),
            (5, 0),
            (5, 2),
            (9, 0),
            (10, 2),
        ];
        assert_eq!(merged, wanted);
    }

    #[test]
    fn all_events_of_a_long_file_arrive() {
        let times = (0..10_000u64).map(|at| event(0, at ^ 3));
        let merged: Vec<_> = Merge::new([times]).map(|event| event.at_ns).collect();
        assert!(merged.iter().copied().eq(0..10_000));
    }
}
