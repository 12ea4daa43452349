//! Bookmark exchange: the workers exchange the numbers of messages that they have sent.

use crate::arch::Rewound;
use crate::control_messages::{sparse_exchange, tag};
use crate::{Runtime, recovery};
use crate::{requests, world};
use std::collections::BTreeMap;
use understudy_mpi as mpi;
use understudy_numbers::Worker;

/// Message for a failed bookmark exchange.
pub(super) const NO_BOOKMARKS: &str = "the workers cannot exchange their message counts";

/// Messages from one worker to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// Number of messages sent since the last cut.
    pub(super) sent: u64,
    /// Number of incomplete synchronous sends about which the sender will query the receiver.
    pub(super) synchronous: u64,
}

impl Bookmark {
    fn to_bytes(self) -> Vec<u8> {
        [self.sent, self.synchronous].map(u64::to_ne_bytes).concat()
    }

    fn from_bytes(bytes: &[u8]) -> mpi::Result<Bookmark> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        match (numbers, rest) {
            (&[sent, synchronous], []) => Ok(Bookmark {
                sent: u64::from_ne_bytes(sent),
                synchronous: u64::from_ne_bytes(synchronous),
            }),
            _ => Err(mpi::Error::INTERN),
        }
    }
}

/// Returns the bookmarks that other workers have for this worker; collective.
///
/// A worker sends a bookmark to each worker to which it has sent messages since the last cut, or
/// has incomplete synchronous sends.
pub fn exchange(rt: &Runtime) -> Result<BTreeMap<Worker, Bookmark>, Rewound> {
    let mut own: BTreeMap<Worker, Bookmark> = BTreeMap::new();
    for (worker, sent) in requests::table(rt).sent.used() {
        own.entry(worker).or_default().sent = sent;
    }
    for send in requests::synchronous::pending(rt) {
        own.entry(Worker(send.to)).or_default().synchronous += 1;
    }
    let letters = own
        .into_iter()
        .map(|(worker, bookmark)| (worker, bookmark.to_bytes()));
    let received = sparse_exchange(world::private(rt), tag::COUNTS, letters.collect());
    let received = recovery::check_own(rt, received, NO_BOOKMARKS)?;
    let bookmarks = received
        .into_iter()
        .map(|(worker, bytes)| Ok((worker, Bookmark::from_bytes(&bytes)?)));
    recovery::check_own(rt, bookmarks.collect(), NO_BOOKMARKS)
}
