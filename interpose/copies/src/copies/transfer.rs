//! Transfers of replicas between ranks, in both directions concurrently.
//!
//! A transfer begins with a *head*, one message of at most [`HEAD_BYTES`], for which the receiver
//! has room. The head contains the lengths and checksums of header and state. It also contains
//! header and state if both fit; otherwise they follow in separate messages. Then the pages and
//! their checksums are sent. The checksums may be computed while the pages are sent.
//!
//! Before the transfer, the sender can query which of the pages the receiver has itself. The query
//! is sent as a head of its own, and after the answer the receiver waits for the next head.
#![allow(unsafe_code)]

mod page_query;
mod transfer_buffer;

use super::replica::{EncodedState, Replica};
use crate::control_messages::{InFlight, InFlightSet, Peer, tag};
use std::ffi::c_int;
use std::mem::take;
use transfer_buffer::{PageSlots, TransferBuffer};
use understudy_catalogue::message;
use understudy_image::deduplication::PageQuery;
use understudy_image::image_delta::{Image, SlotRun};
use understudy_image::store::PageStore;
use understudy_image::wire::{Header, Incoming, Outgoing, SendOptions, WireError};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_mpi::combine_results;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, Worker};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum size of a head in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// Length of a head's first part: the lengths of header and state, and their checksums.
const HEAD_NUMBER_BYTES: usize = 4 * size_of::<u64>();

/// Value in place of the length of a state, if the head contains a query.
const QUERY_MARK: u64 = u64::MAX;

/// Received replica: a delta or a whole image, and the encoded state.
pub struct Payload {
    incoming: Incoming,
    state: EncodedState,
}

impl Payload {
    /// Applies the payload to a stored replica.
    ///
    /// A delta is applied to the image from which it starts; a whole image replaces the stored
    /// image.
    pub fn apply(self, copy: &mut Replica, store: &mut PageStore) -> Result<(), WireError> {
        if self.incoming.header().base.is_some() {
            let delta = self.incoming.into_delta(store)?;
            if copy.image.apply(delta, store).is_err() {
                return Err(WireError::Inconsistent(
                    "it does not follow the replica that is kept",
                ));
            }
        } else {
            let image = self.incoming.into_image(store)?;
            copy.image.clear(store);
            copy.image = image;
            copy.replay_plan = None;
        }
        copy.state = self.state;
        Ok(())
    }

    /// Returns the result of [`Payload::apply`] without changing the replica.
    pub fn preview(&self, copy: &Replica, store: &mut PageStore) -> Replica {
        let replay_plan = self.incoming.header().base.and(copy.replay_plan.clone());
        Replica {
            image: self.incoming.preview(&copy.image, store),
            state: self.state.clone(),
            replay_plan,
        }
    }

    /// Returns the pages (sorted) and the state; the caller then owns the pages' slots.
    pub fn into_parts(self) -> (Vec<SlotRun>, EncodedState) {
        (self.incoming.into_runs(), self.state)
    }

    /// Returns the epoch from which the payload starts; `None` for a whole replica.
    pub fn base(&self) -> Option<Epoch> {
        self.incoming.header().base
    }

    /// Returns the epoch of the payload.
    pub fn epoch(&self) -> Epoch {
        self.incoming.header().epoch
    }

    pub fn bytes(&self) -> u64 {
        self.incoming.header().page_count() * understudy_image::PAGE_SIZE as u64
            + self.state.bytes.len() as u64
    }

    /// Releases the memory of the pages.
    pub fn release_after_reset(self, store: &mut PageStore) {
        self.incoming.cancel(store);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiveStep {
    /// The head has not arrived.
    Head,
    /// Header and state follow in separate messages.
    LongHead,
    /// A query follows in a separate message.
    Question,
    /// A query has arrived, which this process must answer.
    Queried,
    /// Pages and checksums are arriving.
    Pages,
    /// All data have been received.
    Complete,
}

/// Transfer to one rank, from another rank, or in both directions.
///
/// Slots of pages that are received stay allocated until [`Transfer::take_received`] or
/// [`Transfer::give_up`].
pub struct Transfer {
    outgoing: Outgoing,
    header: Vec<u8>,
    state: Vec<u8>,
    head: Vec<u8>,
    /// Number of bytes to send.
    bytes: u64,
    sums: Vec<u64>,
    /// Worker to which the checksums have not been sent yet.
    sums_for: Option<Worker>,
    their_head: Vec<u8>,
    their_header: Vec<u8>,
    their_state: EncodedState,
    incoming: Option<Incoming>,
    receives: InFlightSet<TransferBuffer>,
    sends: InFlightSet<TransferBuffer>,
    comm: RealComm,
    from: Worker,
    step: ReceiveStep,
    /// True if the data to send wait for an answer.
    is_withheld: bool,
    /// Receive of the answer to a query.
    answer: Option<InFlight<Vec<u8>>>,
    query: Option<PageQuery>,
    /// Slots that the last answer has reported; the transfer has one reference to each.
    shared_slots: Vec<SlotRun>,
}

/// Creates a head with these numbers, followed by header and state if they fit.
fn head(numbers: [u64; 4], header: &[u8], state: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_NUMBER_BYTES + header.len() + state.len());
    numbers
        .iter()
        .for_each(|number| head.extend(number.to_ne_bytes()));
    if fits(header.len(), state.len()) {
        head.extend(header);
        head.extend(state);
    }
    head
}

fn fits(header: usize, state: usize) -> bool {
    header + state <= HEAD_BYTES - HEAD_NUMBER_BYTES
}

/// Returns the given number of bytes after the first part of a head.
fn after_lengths(head: &[u8], length: usize) -> Vec<u8> {
    head[HEAD_NUMBER_BYTES..HEAD_NUMBER_BYTES + length].to_vec()
}

/// Returns the numbers at the beginning of a head.
fn numbers(head: &[u8]) -> [u64; 4] {
    [0, 8, 16, 24].map(|at| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default()))
}

impl Transfer {
    /// Creates a transfer that only receives, until data to send are added.
    pub fn receive_only() -> Transfer {
        let header = Header {
            epoch: Epoch(0),
            base: None,
            runs: vec![],
            dropped: vec![],
            kept_by_receiver: vec![],
            chunks: vec![],
        };
        Transfer {
            outgoing: Outgoing {
                header,
                chunks: Vec::new(),
                runs: Vec::new(),
            },
            header: Vec::new(),
            state: Vec::new(),
            head: Vec::new(),
            bytes: 0,
            sums: Vec::new(),
            sums_for: None,
            their_head: Vec::new(),
            their_header: Vec::new(),
            their_state: EncodedState::default(),
            incoming: None,
            receives: InFlightSet::default(),
            sends: InFlightSet::default(),
            comm: RealComm(std::ptr::null_mut()),
            from: Worker::default(),
            step: ReceiveStep::Complete,
            is_withheld: false,
            answer: None,
            query: None,
            shared_slots: Vec::new(),
        }
    }

    /// Creates a transfer of a whole replica.
    pub fn of(copy: &Replica, store: &PageStore) -> Transfer {
        let mut transfer = Transfer::receive_only();
        transfer.set_image(&copy.image, copy.state.clone(), store);
        transfer
    }

    /// Adds a whole image with its checksums, and the state, to send.
    pub fn set_image(&mut self, image: &Image, state: EncodedState, store: &PageStore) {
        let outgoing = image.outgoing(store, SendOptions::default());
        let sums = store.sums(&outgoing.runs);
        self.set_outgoing(outgoing, state);
        self.set_sums(sums);
    }

    /// Adds pages and state to send; the pages' checksums follow later.
    pub fn set_outgoing(&mut self, outgoing: Outgoing, state: EncodedState) {
        self.header = outgoing.header.encode();
        let lengths = [self.header.len() as u64, state.bytes.len() as u64];
        let numbers = [lengths[0], lengths[1], xxh3_64(&self.header), state.sum];
        self.head = head(numbers, &self.header, &state.bytes);
        let pages: usize = outgoing.chunks.iter().map(|chunk| chunk.len).sum();
        self.bytes = (pages + state.bytes.len()) as u64;
        (self.outgoing, self.state) = (outgoing, state.bytes);
    }

    /// Adds the checksums of pages that are being sent, and sends the checksums.
    pub fn send_sums_later(&mut self, sums: Vec<u64>) -> mpi::Result<()> {
        self.sums = sums;
        self.send_sums()
    }

    /// Adds the checksums before the pages are sent.
    pub fn set_sums(&mut self, sums: Vec<u64>) {
        self.sums = sums;
    }

    fn send_sums(&mut self) -> mpi::Result<()> {
        if self.sums.is_empty() {
            return Ok(());
        }
        let Some(to) = self.sums_for.take() else {
            return Ok(());
        };
        let sums = TransferBuffer::Sums(take(&mut self.sums));
        self.send(sums, to, tag::SUMS)
    }

    fn send(&mut self, data: TransferBuffer, rank: Worker, tag: c_int) -> mpi::Result<()> {
        let comm = self.comm;
        self.sends.send([Peer { comm, rank, tag }], data)
    }

    fn receive(&mut self, into: TransferBuffer, tag: c_int) -> mpi::Result<()> {
        let (comm, rank) = (self.comm, self.from);
        self.receives.receive(Peer { comm, rank, tag }, into)
    }

    fn send_bytes(&mut self, bytes: Vec<u8>, to: Worker, tag: c_int) -> mpi::Result<()> {
        self.send(TransferBuffer::Bytes(bytes), to, tag)
    }

    fn receive_bytes(&mut self, length: usize, tag: c_int) -> mpi::Result<()> {
        self.receive(TransferBuffer::Bytes(vec![0; length]), tag)
    }

    /// Starts to receive by posting the receive of the head.
    pub fn post_head(&mut self, comm: RealComm, from: Worker) -> mpi::Result<()> {
        (self.comm, self.from) = (comm, from);
        self.step = ReceiveStep::Head;
        self.receive_bytes(HEAD_BYTES, tag::HEAD)
    }

    /// Starts to send all data.
    pub fn ship(&mut self, comm: RealComm, to: Worker) -> mpi::Result<()> {
        (self.comm, self.is_withheld) = (comm, false);
        let [head, header, state] = [&mut self.head, &mut self.header, &mut self.state].map(take);
        // After the first error no further send is started, since the peer is gone.
        self.send_bytes(head, to, tag::HEAD)?;
        if !fits(header.len(), state.len()) {
            self.send_bytes(header, to, tag::HEADER)?;
            self.send_bytes(state, to, tag::STATE)?;
        }
        for index in 0..self.outgoing.chunks.len() {
            let chunk = self.outgoing.chunks[index];
            // SAFETY: slots of the image or delta from which `outgoing` was made. They are released
            // when the transfer is done. After a failure they are released when the transfer is
            // given up, after all processes have left the MPI instance.
            let pages = unsafe { PageSlots::new(chunk.ptr.cast_mut(), chunk.len) };
            self.send(TransferBuffer::Pages(pages), to, tag::PAGES)?;
        }
        self.sums_for = (!self.outgoing.chunks.is_empty()).then_some(to);
        self.send_sums()
    }

    pub fn start(
        &mut self,
        comm: RealComm,
        to: Option<Worker>,
        from: Option<Worker>,
    ) -> mpi::Result<()> {
        let expected = from.map_or(Ok(()), |from| self.post_head(comm, from));
        combine_results(expected, to.map_or(Ok(()), |to| self.ship(comm, to)))
    }

    /// Advances as far as possible.
    pub fn poll(&mut self, rt: &Runtime, store: &mut PageStore) -> mpi::Result<()> {
        while !matches!(self.step, ReceiveStep::Complete | ReceiveStep::Queried) {
            let Some(received) = self.receives.poll()? else {
                return Ok(());
            };
            self.advance_step(rt, store, received)?;
        }
        self.sends.poll().map(drop)
    }

    fn advance_step(
        &mut self,
        rt: &Runtime,
        store: &mut PageStore,
        received: Vec<TransferBuffer>,
    ) -> mpi::Result<()> {
        if self.step == ReceiveStep::Pages {
            self.step = ReceiveStep::Complete;
            if let (Some(incoming), Some(TransferBuffer::Sums(sums))) =
                (&mut self.incoming, received.into_iter().next_back())
            {
                *incoming.sums() = sums;
            }
            return Ok(());
        }
        let mut received = received.into_iter().map(TransferBuffer::into_bytes);
        let mut next = || received.next().unwrap_or_default();
        match self.step {
            ReceiveStep::Head => {
                self.their_head = next();
                let [header, state, _, state_sum] = numbers(&self.their_head);
                if state == QUERY_MARK {
                    return self.receive_query(rt, header as usize);
                }
                let (header, state) = (header as usize, state as usize);
                self.their_state.sum = state_sum;
                if fits(header, state) {
                    self.their_header = after_lengths(&self.their_head, header + state);
                    self.their_state.bytes = self.their_header.split_off(header);
                    return self.receive_pages(rt, store);
                }
                self.step = ReceiveStep::LongHead;
                self.receive_bytes(header, tag::HEADER)?;
                self.receive_bytes(state, tag::STATE)
            }
            ReceiveStep::Question => {
                self.their_header = next();
                self.decode_query(rt)
            }
            ReceiveStep::LongHead => {
                (self.their_header, self.their_state.bytes) = (next(), next());
                self.receive_pages(rt, store)
            }
            ReceiveStep::Pages | ReceiveStep::Complete | ReceiveStep::Queried => Ok(()),
        }
    }

    fn receive_pages(&mut self, rt: &Runtime, store: &mut PageStore) -> mpi::Result<()> {
        self.step = ReceiveStep::Pages;
        let mut incoming = self
            .their_header()
            .and_then(|header| Incoming::allocate(header, take(&mut self.shared_slots), store))
            .unwrap_or_else(|error| {
                crate::abort::abort_with_error(rt, message::REPLICA_NOT_RECEIVED, &error)
            });
        let chunks: Vec<_> = incoming.chunks().to_vec();
        let sums = TransferBuffer::Sums(take(incoming.sums()));
        crate::fault::point("ship.half", incoming.header().epoch);
        self.incoming = Some(incoming);
        for chunk in &chunks {
            // SAFETY: slots of `incoming`, which gives access to them only after the step is
            // complete. It releases them only if the transfer is given up, after all processes have
            // left the MPI instance.
            let pages = unsafe { PageSlots::new(chunk.ptr, chunk.len) };
            self.receive(TransferBuffer::Pages(pages), tag::PAGES)?;
        }
        if chunks.is_empty() {
            return Ok(());
        }
        self.receive(sums, tag::SUMS)
    }

    fn their_header(&self) -> Result<Header, WireError> {
        self.check_header()?;
        Header::decode(&self.their_header)
    }

    fn check_header(&self) -> Result<(), WireError> {
        match xxh3_64(&self.their_header) == numbers(&self.their_head)[2] {
            true => Ok(()),
            false => Err(WireError::Inconsistent("a wrong checksum")),
        }
    }

    /// Returns the number of bytes to send.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns header and state of the received replica, once they have arrived.
    ///
    /// The pages follow.
    pub fn head(&self) -> Option<(&Header, &EncodedState)> {
        Some((self.incoming.as_ref()?.header(), &self.their_state))
    }

    /// True if all data have been received.
    pub fn is_received(&self) -> bool {
        self.step == ReceiveStep::Complete
    }

    /// True if all sends and receives have completed.
    pub fn is_done(&self) -> bool {
        self.is_received() && self.sends.is_empty() && self.sums_for.is_none() && !self.is_withheld
    }

    /// Returns the received replica once it is complete.
    pub fn take_received(&mut self) -> Option<Payload> {
        if !self.is_received() {
            return None;
        }
        Some(Payload {
            incoming: self.incoming.take()?,
            state: take(&mut self.their_state),
        })
    }

    /// Releases the memory of received pages that were not taken.
    ///
    /// To be called when the transfer is done or the MPI library was reset: the library then writes
    /// to no buffer any more.
    pub fn give_up(self, store: &mut PageStore) {
        if let Some(incoming) = self.incoming {
            incoming.cancel(store);
        }
        store.release(self.shared_slots.into_iter().map(SlotRun::extent));
    }
}
