//! Drained messages, and matched messages in the real library. Plain data.

use crate::errors::SUCCESS;
use crate::handles::VirtComm;
use std::ffi::c_int;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealMessage, Status};

/// Message that was received at a cut before the program asked for it.
#[derive(Clone, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Early {
    /// Virtual communicator.
    pub comm: u64,
    /// Rank of the sender in the communicator.
    pub source: i32,
    pub tag: i32,
    /// Bytes of the message, in the order of the sender's type map.
    pub data: Vec<u8>,
    /// Index of the virtual message, if the program has matched the message (`MPI_Mprobe`).
    pub claimed: Option<u32>,
    /// Sender that waits for a report that the program has received the message.
    ///
    /// The worker's number, and the number of the send there ([`crate::requests::synchronous`]).
    pub owed: Option<(u32, u64)>,
}

impl Early {
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

/// Returns the position of the first of these messages that matches.
pub fn first(list: &[Early], comm: VirtComm, source: c_int, tag: c_int) -> Option<usize> {
    list.iter()
        .position(|early| early.matches(comm, source, tag))
}

/// Matched message in the real library.
#[derive(Clone, Copy)]
pub struct Matched {
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
    fn early_messages_match_by_communicator_source_and_tag() {
        let comm = VirtComm(64 as *mut c_void);
        let early = Early {
            comm: 64,
            source: 3,
            tag: 7,
            data: vec![1, 2],
            claimed: None,
            owed: None,
        };
        assert!(
            early.matches(comm, 3, 7)
                && early.matches(comm, ANY_SOURCE, 7)
                && early.matches(comm, 3, ANY_TAG)
        );
        assert!(!early.matches(comm, 2, 7) && !early.matches(comm, 3, 8));
        assert!(!early.matches(VirtComm(80 as *mut c_void), ANY_SOURCE, ANY_TAG));
        assert_eq!(early.status().bytes, 2);
    }
}
