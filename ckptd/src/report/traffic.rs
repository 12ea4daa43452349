//! What the program's workers have sent, put together from the last record of each.

use super::Event;
use crate::events::{Amount, CommTraffic, Kind, ProcessNumber, Worker};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Messages from one worker to another, or to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub from: Worker,
    pub to: Worker,
    pub messages: Amount,
}

/// A communicator, over all of its members that have told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Communicator {
    /// What a user calls it.
    pub name: String,
    #[serde(flatten)]
    pub traffic: CommTraffic,
}

/// The program's communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traffic {
    pub workers: u32,
    /// In the order of the workers.
    pub pairs: Vec<Pair>,
    /// What was sent to workers that records do not list, since there were too many.
    pub other_pairs: Amount,
    /// Those with the most bytes first.
    pub communicators: Vec<Communicator>,
    /// Messages and collectives of communicators that records do not list.
    pub other_communicators: [Amount; 2],
    /// Messages that were sent besides, and undone by a rollback; of processes that have outlived it.
    pub undone: Amount,
}

/// Collects the communication of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct TrafficCollector {
    last: BTreeMap<Worker, crate::events::Traffic>,
    undone: BTreeMap<ProcessNumber, Amount>,
    workers: u32,
}

impl TrafficCollector {
    pub fn add(&mut self, event: &Event) {
        match &event.kind {
            Kind::Start { workers, .. } => self.workers = self.workers.max(*workers),
            Kind::Traffic(traffic) => {
                self.undone.insert(event.rank, traffic.undone);
                self.last.insert(traffic.worker, traffic.clone());
            }
            _ => {}
        }
    }

    /// `None` if no worker has recorded its communication.
    pub fn finish(self) -> Option<Traffic> {
        Traffic::new(&self)
    }
}

impl Traffic {
    fn new(collected: &TrafficCollector) -> Option<Self> {
        let TrafficCollector {
            last,
            undone,
            workers,
        } = collected;
        let mut it = Self {
            workers: last
                .keys()
                .map(|worker| worker.0.saturating_add(1))
                .fold(*workers, u32::max),
            pairs: Vec::new(),
            other_pairs: Amount::default(),
            communicators: Vec::new(),
            other_communicators: Default::default(),
            undone: Amount::default(),
        };
        undone.values().for_each(|amount| it.undone += *amount);
        let mut communicators = BTreeMap::new();
        for traffic in last.values() {
            let (from, peers) = (traffic.worker, &traffic.peers);
            it.pairs.extend(
                peers
                    .iter()
                    .map(|&crate::events::PeerTraffic { to, messages }| Pair {
                        from,
                        to,
                        messages,
                    }),
            );
            it.other_pairs += traffic.other_peers;
            let others = it.other_communicators.iter_mut().zip(traffic.other_comms);
            others.for_each(|(sum, more)| *sum += more);
            traffic
                .comms
                .iter()
                .for_each(|comm| add(&mut communicators, comm));
        }
        it.communicators = communicators.into_values().collect();
        tell_apart(&mut it.communicators);
        it.communicators.sort_by_key(|it| {
            std::cmp::Reverse(
                it.traffic
                    .messages
                    .bytes
                    .saturating_add(it.traffic.collectives.bytes),
            )
        });
        (!last.is_empty()).then_some(it)
    }

    /// The most that one worker has sent to another.
    pub fn most(&self) -> u64 {
        self.pairs
            .iter()
            .map(|pair| pair.messages.bytes)
            .max()
            .unwrap_or(0)
    }

    /// The pairs with the most bytes.
    pub fn heaviest(&self, count: usize) -> Vec<Pair> {
        let mut pairs = self.pairs.clone();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.messages.bytes));
        pairs.truncate(count);
        pairs
    }
}

/// What tells communicators apart: the same number may be given again when one has been freed.
type Key = (u64, String, u32, Option<u32>);

fn add(to: &mut BTreeMap<Key, Communicator>, comm: &CommTraffic) {
    let key = (comm.id, comm.name.clone(), comm.size, comm.remote);
    match to.get_mut(&key) {
        Some(sum) => {
            sum.traffic.messages += comm.messages;
            sum.traffic.collectives += comm.collectives;
        }
        None => {
            let (name, traffic) = (words(comm), comm.clone());
            to.insert(key, Communicator { name, traffic });
        }
    }
}

/// Different communicators that the program has given the same name are called by their numbers, too.
fn tell_apart(communicators: &mut [Communicator]) {
    let mut ids: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for it in communicators.iter() {
        ids.entry(it.name.clone())
            .or_default()
            .insert(it.traffic.id);
    }
    for it in communicators {
        if ids.get(&it.name).is_some_and(|ids| ids.len() > 1) {
            it.name += &format!(" ({})", number(it.traffic.id));
        }
    }
}

/// The number that it was given by the worker that has chosen it, mostly the first of its members.
fn number(id: u64) -> String {
    match id {
        0 => "MPI_COMM_WORLD".to_owned(),
        CommTraffic::SELF => "MPI_COMM_SELF".to_owned(),
        _ => format!(
            "communicator {} of worker {}",
            id & ((1 << 40) - 1),
            id >> 40
        ),
    }
}

fn words(comm: &CommTraffic) -> String {
    let mut words = match comm.name.as_str() {
        "" => number(comm.id),
        name => name.to_owned(),
    };
    if let Some(remote) = comm.remote {
        words += &format!(" (to {remote} others)");
    }
    words
}
