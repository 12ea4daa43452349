//! Table of requests, and the order in which they were started.
//!
//! Among the receives that match a message, the one that was posted first gets the message (MPI
//! 4.1, section 3.5). Table indices are reused and do not show the order of posting. Every request
//! therefore has a stamp, which is saved and rolled back with the request. Plain data, without the
//! real library.

use super::request::{MessageArguments, Request, RequestKind, RequestState, StartStamp};
use super::request_recipe::RequestRecipe;
use super::synchronous_sends::SynchronousSends;
use super::worker_counts::WorkerCounts;
use crate::handles::VirtDatatype;
use std::collections::BTreeMap;
use understudy_numbers::Worker;

/// Existing requests, by index.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Requests {
    entries: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Stamp of the next request.
    next: StartStamp,
    /// Recipes of persistent collectives and partitioned messages, in the order of creation.
    pub recipes: BTreeMap<u64, RequestRecipe>,
    /// Number of partitioned messages of a pair and direction (true for sent ones).
    ///
    /// See [`super::next_partitioned`].
    pub partitioned: BTreeMap<(u64, bool), u64>,
    /// Sum of the [`super::share`]s of operations that this process has started.
    pub started: u64,
    /// Requests started by blocking calls in progress, by thread (address of its control block).
    pub blocking_calls: Vec<(u64, [Option<u32>; 2])>,
    /// Synchronous sends that are not complete.
    pub synchronous: SynchronousSends,
    /// Messages sent to each worker since the last cut.
    pub sent: WorkerCounts,
    /// Messages received from each worker since the last cut.
    pub received: WorkerCounts,
}

impl Requests {
    /// Empty table.
    pub const NONE: Requests = Requests {
        entries: Vec::new(),
        free: Vec::new(),
        next: StartStamp(0),
        recipes: BTreeMap::new(),
        partitioned: BTreeMap::new(),
        started: 0,
        blocking_calls: Vec::new(),
        synchronous: SynchronousSends::NONE,
        sent: WorkerCounts::NONE,
        received: WorkerCounts::NONE,
    };

    /// Counts a message that has been sent to a worker.
    #[inline]
    pub fn count_sent(&mut self, worker: Option<Worker>) {
        if let Some(worker) = worker {
            self.sent.add(worker);
        }
    }

    /// Counts a message that has been received from a worker.
    #[inline]
    pub fn count_received(&mut self, worker: Option<Worker>) {
        if let Some(worker) = worker {
            self.received.add(worker);
        }
    }

    /// Adds a request, which is the latest one, and returns its index.
    #[inline(always)]
    pub fn insert(&mut self, comm: u64, kind: RequestKind, state: RequestState) -> u32 {
        let request = Some(Request {
            kind,
            state,
            stamp: self.stamp(),
            comm,
            is_freed: false,
            buffered: None,
            companion: None,
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

    /// Gives the latest stamp to a persistent request that is being started.
    pub fn restamp(&mut self, index: u32) {
        let stamp = self.stamp();
        if let Some(request) = self.get_mut(index) {
            request.stamp = stamp;
        }
    }

    /// Makes a persistent request active, with the latest stamp.
    ///
    /// Returns the message of a send.
    #[inline(always)]
    pub fn start(&mut self, index: u32) -> Option<MessageArguments> {
        let stamp = self.stamp();
        let request = self.get_mut(index)?;
        (request.stamp, request.state) = (stamp, RequestState::Active);
        match request.kind {
            RequestKind::PersistentSend(_, message_arguments) => Some(message_arguments),
            _ => None,
        }
    }

    fn stamp(&mut self) -> StartStamp {
        let stamp = self.next;
        self.next = StartStamp(stamp.0 + 1);
        stamp
    }

    /// Completes a request that [the library alone](Request::is_completed_by_library) has
    /// completed.
    ///
    /// A persistent request becomes inactive, and the result is `None`. Any other request is
    /// removed, and the result is `Some` with the datatype of the request, if it has one. `sender`
    /// returns the sender of a received message.
    #[inline(always)]
    pub fn complete(
        &mut self,
        index: u32,
        sender: impl FnOnce(&MessageArguments) -> Option<Worker>,
    ) -> Option<Option<VirtDatatype>> {
        let entry = self.entries.get_mut(index as usize)?;
        let request = entry
            .as_mut()
            .filter(|request| request.is_completed_by_library())?;
        if let RequestKind::Receive(message_arguments)
        | RequestKind::PersistentReceive(message_arguments) = &request.kind
            && let Some(worker) = sender(message_arguments)
        {
            self.received.add(worker);
        }
        if request.is_persistent() {
            request.state = RequestState::Inactive;
            return None;
        }
        let datatype = request.kind.datatype();
        *entry = None;
        self.free.push(index);
        Some(datatype)
    }

    /// Removes a request; its index may be reused.
    pub fn remove(&mut self, index: u32) -> Option<Request> {
        let request = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(request)
    }

    /// Returns the request with this index.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Request> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Returns the request with this index, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Request> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Returns one more than the highest index.
    pub fn index_end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Iterates over all requests and their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Request)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, entry.as_ref()?)))
    }

    /// Returns the indices of all requests, the earliest request first.
    ///
    /// Requests are recreated in this order.
    pub fn by_age(&self) -> Vec<u32> {
        let mut indices: Vec<(StartStamp, u32)> = self
            .iter()
            .map(|(index, request)| (request.stamp, index))
            .collect();
        indices.sort_unstable();
        indices.into_iter().map(|(_, index)| index).collect()
    }
}
