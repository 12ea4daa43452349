//! Recipes of persistent collectives and partitioned messages: arguments of their procedures.
//!
//! After a rollback all participants recreate the real requests, in the order of their creation. A
//! request that a participant has freed can never be started any more, so it is not recreated
//! (`recovery::repost`).
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
        // SAFETY: by the caller's contract.
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
        // SAFETY: by the caller's contract.
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
        // SAFETY: by the caller's contract.
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
    // SAFETY: by the caller's contract.
    copy(unsafe { std::slice::from_raw_parts(first, length) })
}

/// Identity of a request, equal in all participating processes.
pub type Identity = (u64, u64);

/// Arguments that recreate a request.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Recipe {
    /// Slot of the procedure.
    pub slot: u16,
    /// Virtual communicator.
    pub comm: u64,
    /// Identity of the request for all participants.
    pub identity: Identity,
    /// Number of participants.
    pub members: u32,
    /// Share that a start adds to the sum over all workers.
    ///
    /// The sum is zero when all participants have started the request.
    pub share: u64,
    /// All arguments except the request.
    pub arguments: Vec<Argument>,
}

/// Marks numbers of partitioned messages.
const PARTITIONED: u64 = 1 << 63;

/// Returns identity and sender's share of a partitioned message.
///
/// It is message `number` between two workers with this tag. The receiver's share is the negated
/// sender's share. An end may be `None`.
pub fn partitioned(
    comm: u64,
    ends: [Option<Worker>; 2],
    tag: c_int,
    number: u64,
) -> (Identity, u64) {
    let [from, to] = ends.map(|end| end.map_or(u32::MAX, |worker| worker.0));
    let ends = u64::from(from) << 32 | u64::from(to);
    let pair = hash([comm, ends, u64::from(tag as u32)]);
    ((pair, number | PARTITIONED), hash([pair, number, 0]))
}

impl Recipe {
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

pub(super) fn share_of([me, next]: [Worker; 2], uid: u64, number: u64) -> u64 {
    let weight = |worker: Worker| hash([uid, number, u64::from(worker.0)]);
    weight(me).wrapping_sub(weight(next))
}

fn hash(words: [u64; 3]) -> u64 {
    xxh3_64(words.map(u64::to_le_bytes).as_flattened())
}

#[cfg(test)]
mod tests {
    use super::{Worker, partitioned, share_of};

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
    fn shares_cancel_out_when_all_have_started_the_same() {
        assert_eq!((sum(&[1; 4], 1), sum(&[6; 4], 0)), (0, 0));
        assert_ne!(sum(&[1, 1, 0, 1], 1), 0);
        assert_ne!(sum(&[1, 0, 0, 0], 0), 0);
        // Equal numbers of starts, but of different operations.
        assert_ne!(sum(&[1, 1, 0, 0], 1).wrapping_add(sum(&[0, 0, 1, 1], 2)), 0);
    }

    #[test]
    fn both_ends_of_a_partitioned_message_name_it_alike() {
        let partitioned = |comm, ends: [u32; 2], tag, number| {
            partitioned(comm, ends.map(|end| Some(Worker(end))), tag, number)
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
