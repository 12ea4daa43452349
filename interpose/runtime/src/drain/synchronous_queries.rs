//! Synchronous sends whose messages were drained at a cut.

use super::bookmarks::Bookmark;
use crate::control_messages::{swap, tag};
use crate::drained;
use crate::objects::{comm, objects};
use crate::requests::{SynchronousSend, synchronous};
use crate::world;
use std::collections::{BTreeMap, BTreeSet};
use understudy_mpi as mpi;
use understudy_numbers::Worker;
use understudy_objects::Runtime;

/// Query of a sender to the receiver of its message.
#[derive(Clone, Copy)]
struct SynchronousQuery {
    /// Number of the send among those of the sender.
    number: u64,
    /// `uid` of the communicator.
    uid: u64,
    /// Rank of the sender in the communicator.
    source: i32,
    tag: i32,
    /// Number of later messages with equal communicator, receiver and tag.
    followers: u64,
}

impl SynchronousQuery {
    const BYTES: usize = 32;

    fn new(rt: &Runtime, send: &SynchronousSend) -> SynchronousQuery {
        let uid = comm::get(rt, send.comm()).map_or(0, |comm| comm.uid);
        let source = comm::rank_and_size(rt, send.comm()).map_or(-1, |(rank, _)| rank);
        SynchronousQuery {
            number: send.number,
            uid,
            source,
            tag: send.tag,
            followers: send.followers,
        }
    }

    fn bytes(self) -> [u8; SynchronousQuery::BYTES] {
        let place = (self.source as u32 as u64) << 32 | u64::from(self.tag as u32);
        let words = [self.number, self.uid, place, self.followers];
        let mut bytes = [0; SynchronousQuery::BYTES];
        let places = bytes.chunks_exact_mut(8);
        places
            .zip(words)
            .for_each(|(place, word)| place.copy_from_slice(&word.to_ne_bytes()));
        bytes
    }

    fn read(bytes: &[u8]) -> SynchronousQuery {
        let word = |at: usize| {
            bytes[8 * at..][..8]
                .try_into()
                .map_or(0, u64::from_ne_bytes)
        };
        SynchronousQuery {
            number: word(0),
            uid: word(1),
            source: (word(2) >> 32) as u32 as i32,
            tag: word(2) as u32 as i32,
            followers: word(3),
        }
    }

    /// Returns true if the message waits for a receive.
    ///
    /// This process then notifies the sender when the program receives the message.
    fn answer(self, rt: &Runtime, sender: Worker) -> bool {
        let own = objects(rt)
            .comms
            .iter()
            .find(|(_, comm)| comm.uid == self.uid)
            .map(|(index, _)| index);
        let Some(own) = own.map(|index| comm::handle(rt, index)) else {
            return false;
        };
        // Messages with equal envelopes are received in the order in which they were sent (3.5), so
        // the messages that still wait are the last ones.
        drained::notify_on_receive(
            rt,
            (own, self.source, self.tag),
            self.followers,
            (sender, self.number),
        )
    }
}

/// Finds the messages that wait for a receive, and keeps their sends incomplete; collective.
///
/// The requests of these sends stay incomplete even if the library has completed them. The
/// bookmarks contain the number of sends about which each worker queries this worker.
///
/// # Errors
/// Fails if a procedure of the MPI library fails.
pub fn exchange(
    rt: &Runtime,
    sends: &[SynchronousSend],
    bookmarks: &BTreeMap<Worker, Bookmark>,
) -> mpi::Result<()> {
    let coming: Vec<(Worker, usize)> = bookmarks
        .iter()
        .filter(|(_, bookmark)| bookmark.synchronous > 0)
        .map(|(&worker, bookmark)| {
            let queries = bookmark.synchronous as usize;
            (worker, queries * SynchronousQuery::BYTES)
        })
        .collect();
    if sends.is_empty() && coming.is_empty() {
        return Ok(());
    }
    let receivers: BTreeSet<Worker> = sends.iter().map(|send| Worker(send.to)).collect();
    let to = |worker: Worker| sends.iter().filter(move |send| send.to == worker.0);
    let asked: Vec<(Worker, usize)> = receivers
        .into_iter()
        .map(|worker| (worker, to(worker).count()))
        .collect();
    let questions = asked.iter().map(|&(worker, _)| {
        let bytes = to(worker)
            .flat_map(|send| SynchronousQuery::new(rt, send).bytes())
            .collect();
        (worker, bytes)
    });
    let private = world::private(rt);
    let received = swap(private, tag::DRAINED_QUERY, questions.collect(), &coming)?;
    let answers = received.iter().map(|(worker, questions)| {
        let questions = questions
            .chunks_exact(SynchronousQuery::BYTES)
            .map(SynchronousQuery::read);
        (
            *worker,
            questions
                .map(|question| u8::from(question.answer(rt, *worker)))
                .collect(),
        )
    });
    let received = swap(private, tag::DRAINED_QUERY, answers.collect(), &asked)?;
    for (worker, answers) in received {
        to(worker)
            .zip(answers)
            .for_each(|(send, waits)| synchronous::set_matched(rt, send, waits != 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SynchronousQuery;

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let question = SynchronousQuery {
            number: 7,
            uid: u64::MAX - 1,
            source: 3,
            tag: 32767,
            followers: 2,
        };
        let read = SynchronousQuery::read(&question.bytes());
        assert_eq!((read.number, read.uid), (7, u64::MAX - 1));
        assert_eq!((read.source, read.tag, read.followers), (3, 32767, 2));
    }
}
