//! Deduplication queries of a transfer, which precede the replica.

use super::{QUERY_MARK, ReceiveStep, Transfer, fits, head};
use crate::control_messages::{InFlight, Peer, tag};
use std::mem::take;
use understudy_catalogue::message;
use understudy_image::deduplication::{PageQuery, answer_length};
use understudy_image::image_delta::SlotRun;
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
    pub fn postpone(&mut self) {
        self.is_withheld = true;
    }

    /// Queries which of these pages the receiver has itself.
    pub fn send_query(
        &mut self,
        comm: RealComm,
        to: Worker,
        wanted: &PageQuery,
    ) -> mpi::Result<()> {
        self.comm = comm;
        let from = Peer {
            comm,
            rank: to,
            tag: tag::ANSWER,
        };
        let room = vec![0; answer_length(wanted.pages())];
        self.answer = Some(InFlight::receive(from, room)?);
        let question = wanted.encode();
        let length = question.len();
        let numbers = [length as u64, QUERY_MARK, xxh3_64(&question), 0];
        self.send_bytes(head(numbers, &question, &[]), to, tag::HEAD)?;
        match fits(length, 0) {
            true => Ok(()),
            false => self.send_bytes(question, to, tag::HEADER),
        }
    }

    /// Receives a query of `length` bytes, which is in the head or follows.
    pub(super) fn receive_query(&mut self, rt: &Runtime, length: usize) -> mpi::Result<()> {
        if fits(length, 0) {
            self.their_header = super::after_lengths(&self.their_head, length);
            return self.decode_query(rt);
        }
        self.step = ReceiveStep::Question;
        self.receive_bytes(length, tag::HEADER)
    }

    /// Decodes a received query.
    pub(super) fn decode_query(&mut self, rt: &Runtime) -> mpi::Result<()> {
        self.step = ReceiveStep::Queried;
        let question = self
            .check_header()
            .and_then(|()| PageQuery::decode(&self.their_header))
            .unwrap_or_else(|error| {
                crate::abort::abort_with_error(rt, message::PAGE_REQUEST_UNREADABLE, &error)
            });
        self.query = Some(question);
        Ok(())
    }

    /// Removes and returns the received query.
    pub fn take_query(&mut self) -> Option<PageQuery> {
        self.query.take()
    }

    /// Sends the answer and prepares for the next head.
    ///
    /// The slots of the found pages get one more reference each.
    pub fn send_answer(
        &mut self,
        answer: Vec<u8>,
        found: Vec<SlotRun>,
        store: &mut PageStore,
    ) -> mpi::Result<()> {
        store.share(found.iter().map(|run| run.extent()));
        store.release(
            take(&mut self.shared_slots)
                .into_iter()
                .map(SlotRun::extent),
        );
        self.shared_slots = found;
        self.post_head(self.comm, self.from)?;
        self.send_bytes(answer, self.from, tag::ANSWER)
    }

    /// Removes and returns the receiver's answer, once the answer has arrived.
    ///
    /// # Errors
    /// Fails with the error of the MPI library.
    pub fn take_answer(&mut self) -> mpi::Result<Option<Vec<u8>>> {
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        let answer = answer.poll()?;
        if answer.is_some() {
            self.answer = None;
        }
        Ok(answer)
    }
}
