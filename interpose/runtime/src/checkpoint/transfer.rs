//! Moving a copy between two ranks: lengths, then header and state, then the pages, both ways at once.
#![allow(unsafe_code)]

use super::Copy;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles;
use crate::image::epoch::{Epoch, Image};
use crate::image::store::PageStore;
use crate::image::wire::{Header, Incoming, Outgoing, WireError};
use crate::real_types::{RealComm, RealRequest};
use crate::ulfm;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

const TAG_LENGTHS: c_int = 1;
const TAG_HEADER: c_int = 2;
const TAG_STATE: c_int = 3;
const TAG_PAGES: c_int = 4;

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
    Lengths,
    Head,
    Pages,
    Done,
}

/// A transfer to one rank, from another, or both.
pub struct Transfer {
    outgoing: Outgoing,
    header: Vec<u8>,
    state: Vec<u8>,
    lengths: Box<([u64; 2], [u64; 2])>,
    their_header: Vec<u8>,
    their_state: Vec<u8>,
    incoming: Option<Incoming>,
    receives: Vec<RealRequest>,
    sends: Vec<RealRequest>,
    comm: RealComm,
    from: Option<c_int>,
    step: Step,
    /// Requests could not be ended: the memory is given up.
    stuck: bool,
}

const NULL: RealRequest = RealRequest(std::ptr::null_mut());

impl Transfer {
    /// A transfer of these pages and this state.
    pub fn new(outgoing: Outgoing, state: Vec<u8>) -> Transfer {
        let header = outgoing.header.encode();
        Transfer {
            lengths: Box::new(([header.len() as u64, state.len() as u64], [0; 2])),
            outgoing,
            header,
            state,
            their_header: Vec::new(),
            their_state: Vec::new(),
            incoming: None,
            receives: Vec::new(),
            sends: Vec::new(),
            comm: RealComm(std::ptr::null_mut()),
            from: None,
            step: Step::Lengths,
            stuck: false,
        }
    }

    /// A transfer that only receives.
    pub fn receive_only() -> Transfer {
        let header = Header {
            epoch: Epoch(0),
            base: None,
            runs: vec![],
            dropped: vec![],
            chunks: vec![],
            sums: vec![],
        };
        Transfer::new(
            Outgoing {
                header,
                chunks: Vec::new(),
            },
            Vec::new(),
        )
    }

    fn send(&mut self, data: *const c_void, length: usize, to: c_int, tag: c_int) -> c_int {
        let mut request = NULL;
        // SAFETY: memory of the runtime that stays in place until the request has ended.
        let rc = unsafe {
            real::PMPI_Isend(
                data,
                length as c_int,
                handles::byte_type(),
                to,
                tag,
                self.comm,
                &mut request,
            )
        };
        if rc == SUCCESS {
            self.sends.push(request);
        }
        rc
    }

    fn receive(&mut self, data: *mut c_void, length: usize, tag: c_int) -> c_int {
        let mut request = NULL;
        let from = self.from.unwrap_or(crate::requests::PROC_NULL);
        // SAFETY: as above.
        let rc = unsafe {
            real::PMPI_Irecv(
                data,
                length as c_int,
                handles::byte_type(),
                from,
                tag,
                self.comm,
                &mut request,
            )
        };
        if rc == SUCCESS {
            self.receives.push(request);
        }
        rc
    }

    /// Starts: everything that is to be sent is sent at once.
    pub fn start(&mut self, comm: RealComm, to: Option<u32>, from: Option<u32>) -> c_int {
        (self.comm, self.from) = (comm, from.map(|from| from as c_int));
        let mut rc = SUCCESS;
        if self.from.is_some() {
            let lengths = self.lengths.1.as_mut_ptr().cast();
            rc = rc.max(self.receive(lengths, 16, TAG_LENGTHS));
        } else {
            self.step = Step::Pages;
        }
        if let Some(to) = to.map(|to| to as c_int) {
            let lengths = self.lengths.0.as_ptr().cast();
            let (header, state) = (self.header.as_ptr().cast(), self.state.as_ptr().cast());
            rc = rc.max(self.send(lengths, 16, to, TAG_LENGTHS));
            rc = rc.max(self.send(header, self.header.len(), to, TAG_HEADER));
            rc = rc.max(self.send(state, self.state.len(), to, TAG_STATE));
            // After the first error nothing more is started: the peer is gone.
            for index in 0..self.outgoing.chunks.len() {
                if rc != SUCCESS {
                    break;
                }
                let chunk = self.outgoing.chunks[index];
                rc = self.send(chunk.ptr.cast(), chunk.len, to, TAG_PAGES);
            }
        }
        rc
    }

    /// Goes as far as it can; an MPI error code if something failed.
    pub fn poll(&mut self, store: &mut PageStore) -> c_int {
        while self.step != Step::Done {
            let ended = test(&mut self.receives).and_then(|ended| match self.step {
                Step::Pages if ended => test(&mut self.sends),
                _ => Ok(ended),
            });
            let rc = match ended {
                Ok(true) => self.next(store),
                Ok(false) => return SUCCESS,
                Err(rc) => rc,
            };
            if rc != SUCCESS {
                return rc;
            }
        }
        SUCCESS
    }

    fn next(&mut self, store: &mut PageStore) -> c_int {
        self.receives.clear();
        match self.step {
            Step::Lengths => {
                let [header, state] = self.lengths.1;
                self.their_header = vec![0; header as usize];
                self.their_state = vec![0; state as usize];
                self.step = Step::Head;
                let (header_to, state_to) = (
                    self.their_header.as_mut_ptr().cast(),
                    self.their_state.as_mut_ptr().cast(),
                );
                let rc = self.receive(header_to, header as usize, TAG_HEADER);
                rc.max(self.receive(state_to, state as usize, TAG_STATE))
            }
            Step::Head => {
                self.step = Step::Pages;
                self.receive_pages(store)
            }
            Step::Pages | Step::Done => {
                self.step = Step::Done;
                SUCCESS
            }
        }
    }

    fn receive_pages(&mut self, store: &mut PageStore) -> c_int {
        let incoming = Header::decode(&self.their_header)
            .and_then(|header| Image::receive(header, store))
            .unwrap_or_else(|error| super::fail("the partner's copy cannot be received", &error));
        let chunks: Vec<_> = incoming.chunks().to_vec();
        crate::fault::point("ship.half", incoming.header().epoch.0);
        self.incoming = Some(incoming);
        chunks.iter().fold(SUCCESS, |rc, chunk| {
            rc.max(self.receive(chunk.ptr.cast(), chunk.len, TAG_PAGES))
        })
    }

    /// Whether everything has ended.
    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// What was received, when everything has ended.
    pub fn take_received(&mut self) -> Option<Payload> {
        if !self.is_done() {
            return None;
        }
        Some(Payload {
            incoming: self.incoming.take()?,
            state: std::mem::take(&mut self.their_state),
        })
    }

    /// After a failure: cancels what can be cancelled and drives the rest to its end.
    pub fn quiesce(&mut self, limit: Duration) {
        self.stuck = drive(&mut self.receives, limit) + end(&mut self.sends, limit) > 0;
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

fn test(requests: &mut [RealRequest]) -> Result<bool, c_int> {
    let (count, mut flag): (_, c_int) = (requests.len() as c_int, 0);
    // SAFETY: requests of our own; statuses are ignored.
    let rc = unsafe { real::PMPI_Testall(count, requests.as_mut_ptr(), &mut flag, std::ptr::null_mut()) };
    if rc == SUCCESS { Ok(flag != 0) } else { Err(rc) }
}

/// Cancels receives, or other requests that are not sends, and tests them until they have ended; returns how many have not
/// within `limit`.
pub fn drive(requests: &mut [RealRequest], limit: Duration) -> usize {
    for request in requests.iter_mut().filter(|request| is_live(request)) {
        // SAFETY: a request of our own; cancelling what has matched has no effect.
        unsafe { real::PMPI_Cancel(request) };
    }
    end(requests, limit)
}

fn is_live(request: &RealRequest) -> bool {
    *request != NULL && *request != handles::real_request(crate::requests::null_handle())
}

/// Tests requests until they have ended, an error being an end as well; returns how many have not within `limit`.
fn end(requests: &mut [RealRequest], limit: Duration) -> usize {
    let start = Instant::now();
    let mut pending: Vec<&mut RealRequest> = requests.iter_mut().filter(|request| is_live(request)).collect();
    while !pending.is_empty() && start.elapsed() < limit {
        pending.retain_mut(|request| {
            let mut flag: c_int = 0;
            // SAFETY: a request of our own.
            let rc = unsafe { real::PMPI_Test(&mut **request, &mut flag, std::ptr::null_mut()) };
            flag == 0 && (rc == SUCCESS || rc == ulfm::ERR_PROC_FAILED_PENDING)
        });
    }
    pending.len()
}
