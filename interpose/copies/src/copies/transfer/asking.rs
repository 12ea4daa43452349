//! Deduplication queries of a transfer, which precede the replica.
#![allow(unsafe_code)]

use super::{QUESTION, Step, Transfer, fits, head};
use crate::own_messages::{self, Peer, tag};
use std::mem::take;
use understudy_catalogue::message;
use understudy_image::alike::{Wanted, answer_bytes};
use understudy_image::epoch::SlotRun;
use understudy_image::store::PageStore;
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

impl Transfer {
    /// Postpones the end of the transfer.
    ///
    /// The data to send wait for an answer or a computation.
    pub fn withhold(&mut self) {
        self.is_withheld = true;
    }

    /// Queries which of these pages the receiver has itself.
    pub fn ask(&mut self, comm: RealComm, to: Worker, wanted: &Wanted) -> mpi::Result<()> {
        self.comm = comm;
        self.their_answer = vec![0; answer_bytes(wanted.pages())];
        let (into, length) = (
            self.their_answer.as_mut_ptr().cast(),
            self.their_answer.len(),
        );
        let answer = Peer {
            comm,
            rank: to,
            tag: tag::ANSWER,
        };
        // SAFETY: a vector of the transfer that stays in place; it is read only after the request
        // has completed.
        unsafe { own_messages::receive(into, length, answer, &mut self.awaited) }?;
        let question = wanted.encode();
        let length = question.len();
        let numbers = [length as u64, QUESTION, xxh3_64(&question), 0];
        self.say(head(numbers, &question, &[]), to, tag::HEAD)?;
        match fits(length, 0) {
            true => Ok(()),
            false => self.say(question, to, tag::HEADER),
        }
    }

    /// Sends bytes, which stay in place until the send has completed.
    fn say(&mut self, bytes: Vec<u8>, to: Worker, tag: std::ffi::c_int) -> mpi::Result<()> {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        self.said.push(bytes);
        self.send(start, length, to, tag)
    }

    /// Receives a query of `length` bytes, which is in the head or follows.
    pub(super) fn receive_question(&mut self, rt: &Runtime, length: usize) -> mpi::Result<()> {
        if fits(length, 0) {
            self.their_header = super::after_lengths(&self.their_head, length);
            return self.hear(rt);
        }
        self.step = Step::Question;
        self.their_header = vec![0; length];
        let into = self.their_header.as_mut_ptr().cast();
        self.receive(into, length, tag::HEADER)
    }

    /// Decodes a received query.
    pub(super) fn hear(&mut self, rt: &Runtime) -> mpi::Result<()> {
        self.step = Step::Asked;
        let question = self
            .check_header()
            .and_then(|()| Wanted::decode(&self.their_header))
            .unwrap_or_else(|error| {
                crate::ending::fail(rt, message::PAGE_REQUEST_UNREADABLE, &error)
            });
        self.question = Some(question);
        Ok(())
    }

    /// Takes the received query.
    pub fn take_question(&mut self) -> Option<Wanted> {
        self.question.take()
    }

    /// Sends the answer and prepares for the next head.
    ///
    /// The slots of the found pages get one more reference each.
    pub fn answer(
        &mut self,
        answer: Vec<u8>,
        found: Vec<SlotRun>,
        store: &mut PageStore,
    ) -> mpi::Result<()> {
        store.share(found.iter().map(|run| run.extent()));
        store.release(take(&mut self.alike).into_iter().map(SlotRun::extent));
        self.alike = found;
        self.expect(self.comm, self.from)?;
        self.say(answer, self.from, tag::ANSWER)
    }

    /// Takes the receiver's answer once it has arrived.
    ///
    /// # Errors
    /// Errors of the MPI library.
    pub fn take_answer(&mut self) -> mpi::Result<Option<Vec<u8>>> {
        if self.awaited.is_empty() || !own_messages::test(&mut self.awaited)? {
            return Ok(None);
        }
        self.awaited.clear();
        Ok(Some(take(&mut self.their_answer)))
    }
}
