//! Recipes of persistent collectives and partitioned messages: arguments of their procedures.
//!
//! After a rollback all participants recreate the real requests, in the order of their creation. A
//! request that a participant has freed can never be started any more, so it is not recreated
//! (`repost` of the recovery).
#![allow(unsafe_code)]

use crate::handles::{VirtComm, VirtDatatype, VirtOp};
use std::ffi::{c_int, c_void};
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// Argument, as the program has passed it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Argument {
    /// Number, address on the program side, or array that MPI does not read.
    Word(u64),
    Datatype(u64),
    /// Virtual operator.
    Op(u64),
    /// Virtual communicator.
    Comm(u64),
    /// Virtual info object, with hints for the first creation only.
    Info(u64),
    /// Copy of an array of integers.
    Integers(Vec<i32>),
    /// Copy of an array of addresses or of 64-bit numbers.
    Longs(Vec<i64>),
    /// Copy of an array of virtual datatypes.
    Datatypes(Vec<u64>),
}

impl Argument {
    /// Copies an array of integers.
    ///
    /// # Safety
    /// `first` must point to `length` elements, or be null.
    pub unsafe fn integers(first: *const c_int, length: usize) -> Argument {
        // SAFETY: the caller passes null, or an array of `length` elements.
        unsafe {
            array(first, length, |all: &[c_int]| {
                Argument::Integers(all.to_vec())
            })
        }
    }

    /// Copies an array of addresses or of 64-bit numbers.
    ///
    /// # Safety
    /// As for [`Argument::integers`].
    pub unsafe fn longs(first: *const i64, length: usize) -> Argument {
        // SAFETY: the caller passes null, or an array of `length` elements.
        unsafe { array(first, length, |all: &[i64]| Argument::Longs(all.to_vec())) }
    }

    /// Copies an array of virtual datatypes.
    ///
    /// # Safety
    /// As for [`Argument::integers`].
    pub unsafe fn datatypes(first: *const VirtDatatype, length: usize) -> Argument {
        let copy = |all: &[VirtDatatype]| {
            Argument::Datatypes(all.iter().map(|datatype| datatype.0 as u64).collect())
        };
        // SAFETY: the caller passes null, or an array of `length` elements.
        unsafe { array(first, length, copy) }
    }
}

/// Copies an array, or returns a null pointer, for which MPI reports an error.
unsafe fn array<T>(
    first: *const T,
    length: usize,
    copy: impl FnOnce(&[T]) -> Argument,
) -> Argument {
    if first.is_null() {
        return Argument::Word(0);
    }
    // SAFETY: the pointer is not null, so the caller passes an array of `length` elements.
    copy(unsafe { std::slice::from_raw_parts(first, length) })
}

/// Identity of a request, equal in all participating processes.
///
/// A persistent collective has the `uid` of its communicator and its number on that communicator.
/// A partitioned message has the hash of its communicator, ends and tag, and its number among the
/// messages with that hash.
pub type RequestIdentity = (u64, u64);

/// Arguments that recreate a request.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct RequestRecipe {
    /// Slot of the procedure.
    pub slot: u16,
    /// Virtual communicator.
    pub comm: u64,
    /// Identity of the request for all participants.
    pub identity: RequestIdentity,
    /// Number of participants.
    pub members: u32,
    /// Number that each start adds to a sum over all workers, modulo 2⁶⁴.
    ///
    /// The shares of all participants add up to zero. The sum over all workers and all starts is
    /// therefore zero if every participant has started the request equally often; otherwise it is
    /// not zero, except with probability 2⁻⁶⁴. A cut thus checks all requests with one sum, without
    /// a list of requests.
    pub share: u64,
    /// All arguments except the request.
    pub arguments: Vec<Argument>,
}

/// Marks numbers of partitioned messages.
const PARTITIONED: u64 = 1 << 63;

/// Returns identity and sender's share of a partitioned message.
///
/// `number` counts the messages with these `ends` (sender and receiver), tag and communicator. An
/// end is `None` for MPI_PROC_NULL. The receiver's share is the negative of the sender's share: the
/// sum of both is zero when both have started the message.
pub fn partitioned_identity(
    comm_uid: u64,
    ends: [Option<Worker>; 2],
    tag: c_int,
    number: u64,
) -> (RequestIdentity, u64) {
    let [from, to] = ends.map(|end| end.map_or(u32::MAX, |worker| worker.0));
    let ends = u64::from(from) << 32 | u64::from(to);
    let pair = hash([comm_uid, ends, u64::from(tag as u32)]);
    ((pair, number | PARTITIONED), hash([pair, number, 0]))
}

impl RequestRecipe {
    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }

    pub(super) fn each_datatype(&self, act: impl Fn(VirtDatatype)) {
        for argument in &self.arguments {
            match argument {
                Argument::Datatype(one) => act(VirtDatatype(*one as *mut c_void)),
                Argument::Datatypes(all) => all
                    .iter()
                    .for_each(|&one| act(VirtDatatype(one as *mut c_void))),
                _ => {}
            }
        }
    }

    pub(super) fn each_op(&self, act: impl Fn(VirtOp)) {
        for argument in &self.arguments {
            if let Argument::Op(op) = argument {
                act(VirtOp(*op as *mut c_void));
            }
        }
    }
}

/// Returns a member's share of one start of a collective.
///
/// `number` identifies the collective on the communicator with this `uid`. The members form a ring,
/// in which `next` follows `me`. The share is the hash of `me` minus the hash of `next`. In the sum
/// over the ring every hash occurs once with either sign.
pub(super) fn share_of([me, next]: [Worker; 2], uid: u64, number: u64) -> u64 {
    let weight = |worker: Worker| hash([uid, number, u64::from(worker.0)]);
    weight(me).wrapping_sub(weight(next))
}

fn hash(words: [u64; 3]) -> u64 {
    xxh3_64(words.map(u64::to_le_bytes).as_flattened())
}

#[cfg(test)]
mod tests {
    use super::{Worker, partitioned_identity, share_of};

    /// Returns the sum over members, given the number of starts of each.
    fn sum(starts: &[u64], number: u64) -> u64 {
        let members = [2, 5, 7, 11].map(Worker);
        let share =
            |at: usize| share_of([members[at], members[(at + 1) % members.len()]], 3, number);
        let shares = starts
            .iter()
            .enumerate()
            .map(|(at, &times)| times.wrapping_mul(share(at)));
        shares.fold(0, u64::wrapping_add)
    }

    #[test]
    fn shares_add_up_to_zero_when_all_have_started_equal_requests() {
        assert_eq!((sum(&[1; 4], 1), sum(&[6; 4], 0)), (0, 0));
        assert_ne!(sum(&[1, 1, 0, 1], 1), 0);
        assert_ne!(sum(&[1, 0, 0, 0], 0), 0);
        // Equal numbers of starts, but of different operations.
        assert_ne!(sum(&[1, 1, 0, 0], 1).wrapping_add(sum(&[0, 0, 1, 1], 2)), 0);
    }

    #[test]
    fn both_ends_of_a_partitioned_message_derive_one_identity() {
        let partitioned = |comm, ends: [u32; 2], tag, number| {
            partitioned_identity(comm, ends.map(|end| Some(Worker(end))), tag, number)
        };
        assert_eq!(partitioned(3, [1, 2], 9, 4), partitioned(3, [1, 2], 9, 4));
        for other in [
            partitioned(3, [2, 1], 9, 4),
            partitioned(3, [1, 2], 8, 4),
            partitioned(3, [1, 2], 9, 5),
            partitioned(4, [1, 2], 9, 4),
        ] {
            assert_ne!(partitioned(3, [1, 2], 9, 4), other);
        }
    }
}
