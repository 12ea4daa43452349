//! Drained messages, and matched messages in the real library. Plain data.

use crate::errors::SUCCESS;
use crate::handles::VirtComm;
use std::ffi::c_int;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealMessage, Status};

/// Message that was received at a cut before the program requested it.
#[derive(Clone, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct DrainedMessage {
    /// Virtual communicator.
    pub comm: u64,
    /// Rank of the sender in the communicator.
    pub source: i32,
    pub tag: i32,
    /// Bytes of the message, in the order of the sender's type map.
    pub data: Vec<u8>,
    /// Index of the program's message handle, if `MPI_Mprobe` has returned the message.
    pub claimed: Option<u32>,
    /// Synchronous send that completes when the program receives the message.
    ///
    /// The pair consists of the worker that has sent the message, and the number that this worker
    /// has given to the send ([`crate::requests::synchronous`]).
    pub sender_to_notify: Option<(u32, u64)>,
}

impl DrainedMessage {
    fn matches(&self, comm: VirtComm, source: c_int, tag: c_int) -> bool {
        self.claimed.is_none()
            && self.comm == comm.0 as u64
            && (source == ANY_SOURCE || source == self.source)
            && (tag == ANY_TAG || tag == self.tag)
    }

    pub(super) fn status(&self) -> Status {
        Status {
            source: self.source,
            tag: self.tag,
            error: SUCCESS,
            cancelled: 0,
            bytes: self.data.len(),
        }
    }
}

/// Returns the position in `list` of the first message that a receive matches.
pub fn first_matching(
    list: &[DrainedMessage],
    comm: VirtComm,
    source: c_int,
    tag: c_int,
) -> Option<usize> {
    list.iter()
        .position(|drained| drained.matches(comm, source, tag))
}

/// Matched message in the real library.
#[derive(Clone, Copy)]
pub struct MatchedMessage {
    pub comm: VirtComm,
    pub real: RealMessage,
    /// Status that the library has reported.
    pub status: Status,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;

    #[test]
    fn drained_messages_match_by_communicator_source_and_tag() {
        let comm = VirtComm(64 as *mut c_void);
        let drained = DrainedMessage {
            comm: 64,
            source: 3,
            tag: 7,
            data: vec![1, 2],
            claimed: None,
            sender_to_notify: None,
        };
        assert!(
            drained.matches(comm, 3, 7)
                && drained.matches(comm, ANY_SOURCE, 7)
                && drained.matches(comm, 3, ANY_TAG)
        );
        assert!(!drained.matches(comm, 2, 7) && !drained.matches(comm, 3, 8));
        assert!(!drained.matches(VirtComm(80 as *mut c_void), ANY_SOURCE, ANY_TAG));
        assert_eq!(drained.status().bytes, 2);
    }
}
