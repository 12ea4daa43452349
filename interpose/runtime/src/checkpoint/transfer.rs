//! Moving a copy between two ranks: a *head* with header and state, then the pages, both ways at once.
//!
//! The head is one message of at most [`HEAD_BYTES`], for which the receiver is ready before it comes: the lengths, and
//! header and state themselves if they fit. What does not fit follows in messages of its own.
#![allow(unsafe_code)]

use super::Copy;
use crate::errors::SUCCESS;
use crate::image::epoch::{Epoch, Image};
use crate::image::store::PageStore;
use crate::image::wire::{Header, Incoming, Outgoing, WireError};
use crate::own_messages::{self, Peer, tag};
use crate::real_types::{RealComm, RealRequest};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// Room for a head.
const HEAD_BYTES: usize = 32 << 10;
/// The lengths of header and state, at the head's begin.
const LENGTHS: usize = 2 * size_of::<u64>();

/// A received copy: a delta or a whole image, and the encoded state.
pub struct Payload {
    incoming: Incoming,
    state: Vec<u8>,
}

impl Payload {
    /// Adds it to what is kept: a delta to the image that it starts from, a whole image in place of it.
    pub fn apply(self, copy: &mut Copy, store: &mut PageStore) -> Result<(), WireError> {
        if self.incoming.header().base.is_some() {
            let delta = self.incoming.into_delta(store)?;
            if copy.image.apply(delta, store).is_err() {
                return Err(WireError::Inconsistent("it does not follow the copy that is kept"));
            }
        } else {
            let image = self.incoming.into_image(store)?;
            copy.image.clear(store);
            copy.image = image;
        }
        copy.state = self.state;
        Ok(())
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.incoming.header().page_count() * crate::image::PAGE_SIZE as u64 + self.state.len() as u64
    }

    /// Gives its room back.
    pub fn give_up(self, store: &mut PageStore) {
        self.incoming.cancel(store);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The head has not come.
    Head,
    /// Header and state follow it.
    Long,
    Pages,
    /// Everything has been received.
    Whole,
}

/// A transfer to one rank, from another, or both.
pub struct Transfer {
    outgoing: Outgoing,
    header: Vec<u8>,
    state: Vec<u8>,
    head: Vec<u8>,
    their_head: Vec<u8>,
    their_header: Vec<u8>,
    their_state: Vec<u8>,
    incoming: Option<Incoming>,
    receives: Vec<RealRequest>,
    sends: Vec<RealRequest>,
    comm: RealComm,
    from: u32,
    step: Step,
    /// Requests could not be ended: the memory is given up.
    stuck: bool,
}

/// The head for this header and this state.
fn head(header: &[u8], state: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(LENGTHS + header.len() + state.len());
    head.extend((header.len() as u64).to_ne_bytes());
    head.extend((state.len() as u64).to_ne_bytes());
    if fits(header.len(), state.len()) {
        head.extend(header);
        head.extend(state);
    }
    head
}

fn fits(header: usize, state: usize) -> bool {
    header + state <= HEAD_BYTES - LENGTHS
}

/// The lengths that a head begins with.
fn lengths(head: &[u8]) -> (usize, usize) {
    let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default()) as usize;
    (number(0), number(8))
}

impl Transfer {
    /// A transfer that only receives, until it is given something to send.
    pub fn receive_only() -> Transfer {
        let header = Header {
            epoch: Epoch(0),
            base: None,
            runs: vec![],
            dropped: vec![],
            chunks: vec![],
            sums: vec![],
        };
        Transfer {
            outgoing: Outgoing {
                header,
                chunks: Vec::new(),
            },
            header: Vec::new(),
            state: Vec::new(),
            head: Vec::new(),
            their_head: Vec::new(),
            their_header: Vec::new(),
            their_state: Vec::new(),
            incoming: None,
            receives: Vec::new(),
            sends: Vec::new(),
            comm: RealComm(std::ptr::null_mut()),
            from: 0,
            step: Step::Whole,
            stuck: false,
        }
    }

    /// A transfer of these pages and this state.
    pub fn new(outgoing: Outgoing, state: Vec<u8>) -> Transfer {
        let mut transfer = Transfer::receive_only();
        transfer.give(outgoing, state);
        transfer
    }

    /// These pages and this state are to be sent.
    pub fn give(&mut self, outgoing: Outgoing, state: Vec<u8>) {
        self.header = outgoing.header.encode();
        self.head = head(&self.header, &state);
        (self.outgoing, self.state) = (outgoing, state);
    }

    fn send(&mut self, data: *const c_void, length: usize, rank: u32, tag: c_int) -> c_int {
        let to = Peer {
            comm: self.comm,
            rank,
            tag,
        };
        // SAFETY: vectors of the transfer, and slots of the store, that stay in place until the requests have ended.
        unsafe { own_messages::send(data, length, to, &mut self.sends) }
    }

    fn receive(&mut self, data: *mut c_void, length: usize, tag: c_int) -> c_int {
        let from = Peer {
            comm: self.comm,
            rank: self.from,
            tag,
        };
        // SAFETY: as above; they are looked at when the request has ended.
        unsafe { own_messages::receive(data, length, from, &mut self.receives) }
    }

    /// Starts to receive: makes ready for the head.
    pub fn expect(&mut self, comm: RealComm, from: u32) -> c_int {
        (self.comm, self.from) = (comm, from);
        self.step = Step::Head;
        self.their_head = vec![0; HEAD_BYTES];
        let into = self.their_head.as_mut_ptr().cast();
        self.receive(into, HEAD_BYTES, tag::HEAD)
    }

    /// Starts to send: everything at once.
    pub fn ship(&mut self, comm: RealComm, to: u32) -> c_int {
        self.comm = comm;
        let (header, state) = (self.header.as_ptr().cast(), self.state.as_ptr().cast());
        let mut rc = self.send(self.head.as_ptr().cast(), self.head.len(), to, tag::HEAD);
        if !fits(self.header.len(), self.state.len()) {
            rc = rc.max(self.send(header, self.header.len(), to, tag::HEADER));
            rc = rc.max(self.send(state, self.state.len(), to, tag::STATE));
        }
        // After the first error nothing more is started: the peer is gone.
        for index in 0..self.outgoing.chunks.len() {
            if rc != SUCCESS {
                break;
            }
            let chunk = self.outgoing.chunks[index];
            rc = self.send(chunk.ptr.cast(), chunk.len, to, tag::PAGES);
        }
        rc
    }

    /// Starts both ways.
    pub fn start(&mut self, comm: RealComm, to: Option<u32>, from: Option<u32>) -> c_int {
        let expected = from.map_or(SUCCESS, |from| self.expect(comm, from));
        expected.max(to.map_or(SUCCESS, |to| self.ship(comm, to)))
    }

    /// Goes as far as it can; an MPI error code if something failed.
    pub fn poll(&mut self, store: &mut PageStore) -> c_int {
        while self.step != Step::Whole {
            let rc = match own_messages::test(&mut self.receives) {
                Ok(true) => self.next(store),
                Ok(false) => return SUCCESS,
                Err(rc) => rc,
            };
            if rc != SUCCESS {
                return rc;
            }
        }
        match own_messages::test(&mut self.sends) {
            Ok(ended) => {
                if ended {
                    self.sends.clear();
                }
                SUCCESS
            }
            Err(rc) => rc,
        }
    }

    fn next(&mut self, store: &mut PageStore) -> c_int {
        self.receives.clear();
        match self.step {
            Step::Head => {
                let (header, state) = lengths(&self.their_head);
                if fits(header, state) {
                    let header_end = LENGTHS + header;
                    self.their_header = self.their_head[LENGTHS..header_end].to_vec();
                    self.their_state = self.their_head[header_end..header_end + state].to_vec();
                    return self.receive_pages(store);
                }
                self.step = Step::Long;
                (self.their_header, self.their_state) = (vec![0; header], vec![0; state]);
                let (header_to, state_to) = (
                    self.their_header.as_mut_ptr().cast(),
                    self.their_state.as_mut_ptr().cast(),
                );
                let rc = self.receive(header_to, header, tag::HEADER);
                rc.max(self.receive(state_to, state, tag::STATE))
            }
            Step::Long => self.receive_pages(store),
            Step::Pages | Step::Whole => {
                self.step = Step::Whole;
                SUCCESS
            }
        }
    }

    fn receive_pages(&mut self, store: &mut PageStore) -> c_int {
        self.step = Step::Pages;
        let incoming = Header::decode(&self.their_header)
            .and_then(|header| Image::receive(header, store))
            .unwrap_or_else(|error| super::fail("the partner's copy cannot be received", &error));
        let chunks: Vec<_> = incoming.chunks().to_vec();
        crate::fault::point("ship.half", incoming.header().epoch.0);
        self.incoming = Some(incoming);
        chunks.iter().fold(SUCCESS, |rc, chunk| {
            rc.max(self.receive(chunk.ptr.cast(), chunk.len, tag::PAGES))
        })
    }

    /// Header and state of what is coming in, once they are there; the pages follow.
    pub fn head(&self) -> Option<(&Header, &[u8])> {
        Some((self.incoming.as_ref()?.header(), &self.their_state))
    }

    /// Whether what comes has been received.
    pub fn is_whole(&self) -> bool {
        self.step == Step::Whole
    }

    /// Whether everything has ended.
    pub fn is_done(&self) -> bool {
        self.is_whole() && self.sends.is_empty()
    }

    /// What was received, when it is whole.
    pub fn take_received(&mut self) -> Option<Payload> {
        if !self.is_whole() {
            return None;
        }
        Some(Payload {
            incoming: self.incoming.take()?,
            state: std::mem::take(&mut self.their_state),
        })
    }

    /// After a failure: cancels what can be cancelled and drives the rest to its end.
    pub fn quiesce(&mut self, limit: Duration) {
        self.stuck = own_messages::drive(&mut self.receives, limit) + own_messages::end(&mut self.sends, limit) > 0;
    }

    /// Gives the room for received pages back, unless something may still be written into it.
    pub fn give_up(mut self, store: &mut PageStore) {
        if self.stuck {
            std::mem::forget(self);
        } else if let Some(incoming) = self.incoming.take() {
            incoming.cancel(store);
        }
    }
}
