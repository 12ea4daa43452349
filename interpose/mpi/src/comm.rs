//! Communicators of the library, with typed collectives for the runtimes of a job.
#![allow(unsafe_code)]

use crate::abi::object;
use crate::bytes::byte;
use crate::error::{Error, Result, check};
use crate::in_flight::{InFlight, started};
use crate::plain::Plain;
use crate::procedures::real;
use crate::real_types::{RealComm, RealDatatype, RealErrhandler, RealOp};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use understudy_numbers::Rank;

/// Time for which a sleeping barrier polls without sleeping.
const POLLING_TIME: Duration = Duration::from_micros(200);
/// Longest sleep between two polls of a sleeping barrier.
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// Kind of extreme that is computed over all processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extreme {
    Least,
    Greatest,
}

fn length_of<T>(values: &[T]) -> Result<c_int> {
    c_int::try_from(size_of_val(values)).map_err(|_| Error::INTERN)
}

impl RealComm {
    /// Value for a missing communicator.
    pub const NONE: RealComm = RealComm(std::ptr::null_mut());

    pub fn world() -> RealComm {
        static WORLD: OnceLock<RealComm> = OnceLock::new();
        *WORLD.get_or_init(|| RealComm(object(c"ompi_mpi_comm_world")))
    }

    pub fn of_self() -> RealComm {
        RealComm(object(c"ompi_mpi_comm_self"))
    }

    /// Returns the number of processes.
    ///
    /// # Errors
    /// Fails if the library reports an error or the MPI instance is over.
    pub fn size(self) -> Result<u32> {
        let mut size = 0;
        // SAFETY: a local query, which writes one number.
        check(unsafe { real::PMPI_Comm_size(self, &mut size) })?;
        Ok(size as u32)
    }

    /// Returns the number of processes from which a collective of this process receives.
    ///
    /// An intercommunicator's collectives receive from the other group.
    fn sender_count(self) -> Result<u32> {
        let (mut size, mut has_two_groups) = (0, 0);
        // SAFETY: local queries, which write one number each.
        unsafe {
            check(real::PMPI_Comm_test_inter(self, &mut has_two_groups))?;
            if has_two_groups == 0 {
                return self.size();
            }
            check(real::PMPI_Comm_remote_size(self, &mut size))?;
        }
        Ok(size as u32)
    }

    /// Returns the rank of this process.
    ///
    /// # Errors
    /// The errors are those of [`size`](Self::size).
    pub fn rank(self) -> Result<Rank> {
        let mut rank = 0;
        // SAFETY: a local query, which writes one number.
        check(unsafe { real::PMPI_Comm_rank(self, &mut rank) })?;
        Ok(Rank(rank as u32))
    }

    /// Makes procedures return errors of this communicator (`MPI_ERRORS_RETURN`).
    pub fn return_errors(self) {
        let handler = RealErrhandler(object(c"ompi_mpi_errors_return"));
        // SAFETY: a communicator and a predefined handler of the library.
        unsafe { real::PMPI_Comm_set_errhandler(self, handler) };
    }

    /// Returns a duplicate that returns errors.
    ///
    /// Collective, like all methods below.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn duplicate(self) -> Result<RealComm> {
        let mut copy = RealComm::NONE;
        // SAFETY: a collective that writes one handle.
        check(unsafe { real::PMPI_Comm_dup(self, &mut copy) })?;
        copy.return_errors();
        Ok(copy)
    }

    /// Returns a communicator of the processes in the order of their keys, which returns errors.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn ordered(self, key: u32) -> Result<RealComm> {
        let mut ordered = RealComm::NONE;
        // SAFETY: a collective that writes one handle.
        check(unsafe { real::PMPI_Comm_split(self, 0, key as c_int, &mut ordered) })?;
        ordered.return_errors();
        Ok(ordered)
    }

    /// Blocks until all processes have called this method.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn barrier(self) -> Result<()> {
        // SAFETY: a collective that accesses no memory of the caller.
        check(unsafe { real::PMPI_Barrier(self) })
    }

    /// Starts a barrier.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn start_barrier(self) -> Result<InFlight<Vec<u8>>> {
        InFlight::of(|set| {
            set.start(Vec::new(), |_, _, requests| {
                // SAFETY: a collective that accesses no memory of the caller.
                started(requests, |request| unsafe {
                    real::PMPI_Ibarrier(self, request)
                })
            })
        })
    }

    /// Blocks until all processes have called this method; sleeps during a long wait.
    ///
    /// The processors are thus left to processes that arrive late. After [`POLLING_TIME`], this
    /// process sleeps between two polls for an eighth of its waiting time, at most [`MAX_SLEEP`].
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn sleeping_barrier(self) -> Result<()> {
        let (start, mut barrier) = (Instant::now(), self.start_barrier()?);
        while barrier.poll()?.is_none() {
            match start.elapsed() {
                waited if waited < POLLING_TIME => std::thread::yield_now(),
                waited => std::thread::sleep((waited / 8).min(MAX_SLEEP)),
            }
        }
        Ok(())
    }

    /// Starts to compute the minimum of one number of each process.
    ///
    /// Each number must be below 2⁶³. The returned buffer contains this process's number, followed
    /// by the minimum.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn start_allreduce_min(self, number: u64) -> Result<InFlight<Vec<u64>>> {
        static TYPE_AND_OP: OnceLock<(RealDatatype, RealOp)> = OnceLock::new();
        let &(datatype, op) = TYPE_AND_OP.get_or_init(|| {
            (
                RealDatatype(object(c"ompi_mpi_int64_t")),
                RealOp(object(c"ompi_mpi_op_min")),
            )
        });
        InFlight::of(|set| {
            set.start(vec![number, 0], |own, _, requests| {
                let least = own.wrapping_byte_add(size_of::<u64>());
                // SAFETY: `own` and `least` have room for one number each. The numbers stay in
                // place, and no other code accesses them, until the request is complete: see
                // `InFlightSet::start`.
                started(requests, |request| unsafe {
                    real::PMPI_Iallreduce(own, least, 1, datatype, op, self, request)
                })
            })
        })
    }

    /// Distributes the values of `root` to all processes, and returns them.
    ///
    /// All processes must pass equal numbers of values.
    ///
    /// # Errors
    /// Fails if the library reports an error, or with [`Error::INTERN`] for values of 2 GiB or
    /// more.
    pub fn broadcast<T: Plain>(self, root: Rank, values: Vec<T>) -> Result<Vec<T>> {
        let length = length_of(&values)?;
        // SAFETY: `buffer` has this size, and its bytes may have any value. `InFlight::block` keeps
        // the memory after an error, when the transfer of an abandoned call may still write to it.
        InFlight::block(values, |buffer| unsafe {
            real::PMPI_Bcast(buffer, length, byte(), root.0 as c_int, self)
        })
    }

    /// Distributes the bytes of `root`, of any length, to all processes, and returns them.
    ///
    /// # Errors
    /// The errors are those of [`broadcast`](Self::broadcast).
    pub fn broadcast_bytes(self, root: Rank, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let length = self.broadcast(root, vec![bytes.len() as u64])?[0];
        bytes.resize(length as usize, 0);
        self.broadcast(root, bytes)
    }

    /// Returns the values of each process, in the order of their ranks.
    ///
    /// All processes must pass equal numbers of values. A process of an intercommunicator receives
    /// the values of the other group.
    ///
    /// # Errors
    /// The errors are those of [`broadcast`](Self::broadcast).
    pub fn gather<T: Plain>(self, own: &[T]) -> Result<Vec<T>> {
        let length = length_of(own)?;
        let (from, all) = (
            own.as_ptr().cast(),
            own.repeat(self.sender_count()? as usize),
        );
        // SAFETY: equal numbers of bytes from all processes, for which there is room.
        InFlight::block(all, |to| unsafe {
            real::PMPI_Allgather(from, length, byte(), to, length, byte(), self)
        })
    }

    /// Returns the bytes of each process, in the order of ranks; lengths may differ.
    ///
    /// # Errors
    /// The errors are those of [`broadcast`](Self::broadcast) with all bytes together.
    pub fn gather_bytes(self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.gather(&[length_of(own)?])?;
        let (mut total, mut offsets): (c_int, _) = (0, Vec::with_capacity(lengths.len()));
        for &length in &lengths {
            offsets.push(total);
            total = total.checked_add(length).ok_or(Error::INTERN)?;
        }
        let (from, length) = (own.as_ptr().cast(), own.len() as c_int);
        let (counts, displacements) = (lengths.as_ptr(), offsets.as_ptr());
        // SAFETY: room for the bytes of each process.
        let all = InFlight::block(vec![0u8; total as usize], |to| unsafe {
            real::PMPI_Allgatherv(
                from,
                length,
                byte(),
                to,
                counts,
                displacements,
                byte(),
                self,
            )
        })?;
        let ranges = offsets.iter().zip(&lengths);
        Ok(ranges
            .map(|(&start, &length)| all[start as usize..(start + length) as usize].to_vec())
            .collect())
    }

    /// Returns the extremes of the processes' numbers, position by position.
    ///
    /// All processes must pass equal numbers of values. MPICH 4.0 (its issue 6083) and Open MPI 4.1
    /// (its issue 10525) compare unsigned numbers as signed ones. The values are therefore passed
    /// as signed numbers, with the top bit inverted, which preserves their order.
    ///
    /// # Errors
    /// Fails if the library reports an error, or with [`Error::INTERN`] for 2³¹ values or more.
    pub fn allreduce_min_max(self, extreme: Extreme, own: &[u64]) -> Result<Vec<u64>> {
        const TOP: u64 = 1 << 63;
        let number = RealDatatype(object(c"ompi_mpi_int64_t"));
        let op = RealOp(object(match extreme {
            Extreme::Least => c"ompi_mpi_op_min",
            Extreme::Greatest => c"ompi_mpi_op_max",
        }));
        let count = c_int::try_from(own.len()).map_err(|_| Error::INTERN)?;
        let own: Vec<u64> = own.iter().map(|number| number ^ TOP).collect();
        let from = own.as_ptr().cast();
        // SAFETY: equal numbers of values to read and write.
        let mut all = InFlight::block(vec![0u64; own.len()], |to| unsafe {
            real::PMPI_Allreduce(from, to, count, number, op, self)
        })?;
        all.iter_mut().for_each(|number| *number ^= TOP);
        Ok(all)
    }

    /// Returns the sums of the processes' numbers modulo 2⁶⁴, position by position.
    ///
    /// All processes must pass equal numbers of values.
    ///
    /// # Errors
    /// The errors are those of [`allreduce_min_max`](Self::allreduce_min_max).
    pub fn allreduce_sum(self, own: &[u64]) -> Result<Vec<u64>> {
        let number = RealDatatype(object(c"ompi_mpi_uint64_t"));
        let op = RealOp(object(c"ompi_mpi_op_sum"));
        let count = c_int::try_from(own.len()).map_err(|_| Error::INTERN)?;
        let from = own.as_ptr().cast();
        // SAFETY: equal numbers of values to read and write.
        InFlight::block(vec![0u64; own.len()], |to| unsafe {
            real::PMPI_Allreduce(from, to, count, number, op, self)
        })
    }
}
