//! The table of requests, and the order in which they were begun.
//!
//! Receives that match the same message get it in the order in which they were posted (MPI 4.1,
//! section 3.5). Places in the table are reused, so they say nothing of that order: every request
//! has a stamp, which is saved and goes back with it. Plain data; the real library has no part in
//! it.

use super::record::{Envelope, Kind, Request, Stamp, State};
use super::request_recipe::Recipe;
use super::synchronous_sends::Sends;
use crate::handles::VirtDatatype;
use std::collections::BTreeMap;
use understudy_numbers::Worker;

/// The requests that exist, by index.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Requests {
    entries: Vec<Option<Request>>,
    free: Vec<u32>,
    /// That of the next request to be begun.
    next: Stamp,
    /// How persistent collectives and partitioned messages were made, in the order of the calls.
    pub recipes: BTreeMap<u64, Recipe>,
    /// How many partitioned messages there were between two ends with one tag; whether this process
    /// sends.
    pub partitioned: BTreeMap<(u64, bool), u64>,
    /// The sum of [`super::share`]s of what this process has started.
    pub started: u64,
    /// What the blocking calls that are under way have started, each in a thread of its own (its
    /// control block).
    pub begun: Vec<(u64, [Option<u32>; 2])>,
    /// Synchronous sends that have not ended.
    pub synchronous: Sends,
    /// Messages sent to each worker since MPI_Init.
    pub sent: Vec<u64>,
    /// Messages received from each worker since MPI_Init.
    pub received: Vec<u64>,
}

impl Requests {
    /// There are none.
    pub const NONE: Requests = Requests {
        entries: Vec::new(),
        free: Vec::new(),
        next: Stamp(0),
        recipes: BTreeMap::new(),
        partitioned: BTreeMap::new(),
        started: 0,
        begun: Vec::new(),
        synchronous: Sends::NONE,
        sent: Vec::new(),
        received: Vec::new(),
    };

    /// A message is on its way to a worker.
    #[inline]
    pub fn count_sent(&mut self, worker: Option<Worker>) {
        if let Some(sent) = worker.and_then(|worker| self.sent.get_mut(worker.index())) {
            *sent += 1;
        }
    }

    /// A message has come from a worker.
    #[inline]
    pub fn count_received(&mut self, worker: Option<Worker>) {
        if let Some(received) = worker.and_then(|worker| self.received.get_mut(worker.index())) {
            *received += 1;
        }
    }

    /// Adds a request, the youngest, and returns its index.
    #[inline(always)]
    pub fn insert(&mut self, comm: u64, kind: Kind, state: State) -> u32 {
        let request = Some(Request {
            kind,
            state,
            begun: self.stamp(),
            comm,
            orphan: false,
            buffered: None,
            other: None,
        });
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = request;
                index
            }
            None => {
                self.entries.push(request);
                self.entries.len() as u32 - 1
            }
        }
    }

    /// A persistent request is started: it is the youngest from now on.
    pub fn renew(&mut self, index: u32) {
        let stamp = self.stamp();
        if let Some(request) = self.get_mut(index) {
            request.begun = stamp;
        }
    }

    /// A persistent request is under way, the youngest: what a send sends.
    #[inline(always)]
    pub fn start(&mut self, index: u32) -> Option<Envelope> {
        let stamp = self.stamp();
        let request = self.get_mut(index)?;
        (request.begun, request.state) = (stamp, State::Active);
        match request.kind {
            Kind::PersistentSend(_, envelope) => Some(envelope),
            _ => None,
        }
    }

    fn stamp(&mut self) -> Stamp {
        let stamp = self.next;
        self.next = Stamp(stamp.0 + 1);
        stamp
    }

    /// A request that [is alone](Request::is_alone) has ended, and has been asked for: it is
    /// inactive if it is persistent, else it is gone. `sender` tells whose message a receive has
    /// got. If it is gone: the datatype that it has kept.
    #[inline(always)]
    pub fn end(
        &mut self,
        index: u32,
        sender: impl FnOnce(&Envelope) -> Option<Worker>,
    ) -> Option<Option<VirtDatatype>> {
        let entry = self.entries.get_mut(index as usize)?;
        let request = entry.as_mut().filter(|request| request.is_alone())?;
        if let Kind::Receive(envelope) | Kind::PersistentReceive(envelope) = &request.kind
            && let Some(count) =
                sender(envelope).and_then(|worker| self.received.get_mut(worker.index()))
        {
            *count += 1;
        }
        if request.is_persistent() {
            request.state = State::Inactive;
            return None;
        }
        let datatype = request.kind.datatype();
        *entry = None;
        self.free.push(index);
        Some(datatype)
    }

    /// Takes a request out; its index is given out again.
    pub fn remove(&mut self, index: u32) -> Option<Request> {
        let request = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(request)
    }

    /// The request with this index.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Request> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Request> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// One past the highest index.
    pub fn places(&self) -> u32 {
        self.entries.len() as u32
    }

    /// All requests with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Request)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, entry.as_ref()?)))
    }

    /// The indices of all requests, the one that was begun first at the front: the order in which
    /// they are made again.
    pub fn by_age(&self) -> Vec<u32> {
        let mut indices: Vec<(Stamp, u32)> = self
            .iter()
            .map(|(index, request)| (request.begun, index))
            .collect();
        indices.sort_unstable();
        indices.into_iter().map(|(_, index)| index).collect()
    }
}
