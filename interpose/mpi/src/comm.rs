//! Communicators of the library: what processes of the layer say to each other.
#![allow(unsafe_code)]

use crate::abi::object;
use crate::error::{Error, Result, check};
use crate::procedures::real;
use crate::real_types::{RealComm, RealDatatype, RealErrhandler, RealOp, RealRequest};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use understudy_numbers::Rank;

/// How long a sleeping barrier only polls, and its longest poll interval then.
const POLLING: Duration = Duration::from_micros(200);
const LONGEST_INTERVAL: Duration = Duration::from_millis(1);

/// Values that are sent as they lie in memory.
///
/// # Safety
/// All bytes of a value are initialised, and any bytes are a value.
pub unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for u8 {}
// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: a number.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl<const N: usize> Plain for [u64; N] {}

pub fn byte() -> RealDatatype {
    static BYTE: OnceLock<RealDatatype> = OnceLock::new();
    *BYTE.get_or_init(|| RealDatatype(object(c"ompi_mpi_byte")))
}

/// Which number of all is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extreme {
    Least,
    Greatest,
}

fn length_of<T>(values: &[T]) -> Result<c_int> {
    c_int::try_from(size_of_val(values)).map_err(|_| Error::INTERN)
}

impl RealComm {
    /// `MPI_COMM_NULL`'s place where there is no communicator.
    pub const NONE: RealComm = RealComm(std::ptr::null_mut());

    pub fn world() -> RealComm {
        static WORLD: OnceLock<RealComm> = OnceLock::new();
        *WORLD.get_or_init(|| RealComm(object(c"ompi_mpi_comm_world")))
    }

    pub fn of_self() -> RealComm {
        RealComm(object(c"ompi_mpi_comm_self"))
    }

    /// How many processes it has.
    ///
    /// # Errors
    /// The library's; no process can have failed.
    pub fn size(self) -> Result<u32> {
        let mut size = 0;
        // SAFETY: a local query, which writes one number.
        check(unsafe { real::PMPI_Comm_size(self, &mut size) })?;
        Ok(size as u32)
    }

    /// The own rank in it.
    ///
    /// # Errors
    /// As of [`size`](Self::size).
    pub fn rank(self) -> Result<Rank> {
        let mut rank = 0;
        // SAFETY: a local query, which writes one number.
        check(unsafe { real::PMPI_Comm_rank(self, &mut rank) })?;
        Ok(Rank(rank as u32))
    }

    /// From now on its errors are returned.
    pub fn return_errors(self) {
        let handler = RealErrhandler(object(c"ompi_mpi_errors_return"));
        // SAFETY: a communicator and the predefined handler.
        unsafe { real::PMPI_Comm_set_errhandler(self, handler) };
    }

    /// A duplicate that returns errors. Collective, as all that follows.
    ///
    /// # Errors
    /// The library's.
    pub fn duplicate(self) -> Result<RealComm> {
        let mut copy = RealComm::NONE;
        // SAFETY: a collective that writes one handle.
        check(unsafe { real::PMPI_Comm_dup(self, &mut copy) })?;
        copy.return_errors();
        Ok(copy)
    }

    /// The same processes in the order of their keys; it returns errors.
    ///
    /// # Errors
    /// The library's.
    pub fn ordered(self, key: u32) -> Result<RealComm> {
        let mut ordered = RealComm::NONE;
        // SAFETY: a collective that writes one handle.
        check(unsafe { real::PMPI_Comm_split(self, 0, key as c_int, &mut ordered) })?;
        ordered.return_errors();
        Ok(ordered)
    }

    /// Returns when all have come.
    ///
    /// # Errors
    /// The library's.
    pub fn barrier(self) -> Result<()> {
        // SAFETY: a collective without memory.
        check(unsafe { real::PMPI_Barrier(self) })
    }

    /// The same where somebody may come late, who is to have the processors meanwhile: this process
    /// sleeps between two polls, the longer the longer it has waited.
    ///
    /// # Errors
    /// The library's.
    pub fn sleeping_barrier(self) -> Result<()> {
        let (began, mut request, mut has_ended) =
            (Instant::now(), RealRequest(std::ptr::null_mut()), 0);
        // SAFETY: a collective without memory.
        check(unsafe { real::PMPI_Ibarrier(self, &mut request) })?;
        loop {
            // SAFETY: a request of this function's own; the status is ignored.
            check(unsafe {
                real::PMPI_Testall(1, &mut request, &mut has_ended, std::ptr::null_mut())
            })?;
            match began.elapsed() {
                _ if has_ended != 0 => return Ok(()),
                waited if waited < POLLING => std::thread::yield_now(),
                waited => std::thread::sleep((waited / 8).min(LONGEST_INTERVAL)),
            }
        }
    }

    /// Starts to find the least number of all, each below 2⁶³.
    ///
    /// # Safety
    /// The numbers, this process's and the least, must stay in place until the request has ended.
    ///
    /// # Errors
    /// The library's.
    pub unsafe fn start_least(self, numbers: *mut [u64; 2]) -> Result<RealRequest> {
        static LEAST: OnceLock<(RealDatatype, RealOp)> = OnceLock::new();
        let &(number, op) = LEAST.get_or_init(|| {
            (
                RealDatatype(object(c"ompi_mpi_int64_t")),
                RealOp(object(c"ompi_mpi_op_min")),
            )
        });
        let mut request = RealRequest(std::ptr::null_mut());
        // SAFETY: one number on either side, which stay where they are as the caller says.
        check(unsafe {
            let own = numbers.cast::<u64>();
            real::PMPI_Iallreduce(
                own.cast(),
                own.add(1).cast(),
                1,
                number,
                op,
                self,
                &mut request,
            )
        })?;
        Ok(request)
    }

    /// The values of `root`, for everybody.
    ///
    /// # Errors
    /// The library's; [`Error::INTERN`] if they are longer than 2 GiB, as below.
    pub fn broadcast<T: Plain>(self, root: Rank, values: &mut [T]) -> Result<()> {
        let length = length_of(values)?;
        let into = values.as_mut_ptr().cast::<c_void>();
        // SAFETY: so many bytes, which may have any value.
        check(unsafe { real::PMPI_Bcast(into, length, byte(), root.0 as c_int, self) })
    }

    /// As many values of each process, in the order of their ranks.
    ///
    /// # Errors
    /// As of [`broadcast`](Self::broadcast).
    pub fn gather<T: Plain>(self, own: &[T]) -> Result<Vec<T>> {
        let length = length_of(own)?;
        let mut all = own.repeat(self.size()? as usize);
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: as many bytes from everybody as there is room for.
        check(unsafe { real::PMPI_Allgather(from, length, byte(), to, length, byte(), self) })?;
        Ok(all)
    }

    /// Bytes of each process, of any length, in the order of their ranks.
    ///
    /// # Errors
    /// As of [`broadcast`](Self::broadcast), for all of them together.
    pub fn gather_bytes(self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.gather(&[length_of(own)?])?;
        let (mut total, mut places): (c_int, _) = (0, Vec::with_capacity(lengths.len()));
        for &length in &lengths {
            places.push(total);
            total = total.checked_add(length).ok_or(Error::INTERN)?;
        }
        let mut all = vec![0u8; total as usize];
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let (counts, offsets) = (lengths.as_ptr(), places.as_ptr());
        // SAFETY: room for what each process sends.
        check(unsafe {
            real::PMPI_Allgatherv(
                from,
                own.len() as c_int,
                byte(),
                to,
                counts,
                offsets,
                byte(),
                self,
            )
        })?;
        let parts = places.iter().zip(&lengths);
        Ok(parts
            .map(|(&at, &length)| all[at as usize..(at + length) as usize].to_vec())
            .collect())
    }

    /// One value for each process, by rank; what they have for this one.
    ///
    /// # Errors
    /// As of [`broadcast`](Self::broadcast).
    ///
    /// # Panics
    /// If there are not as many values as processes.
    pub fn exchange<T: Plain>(self, own: &[T]) -> Result<Vec<T>> {
        assert_eq!(
            own.len(),
            self.size()? as usize,
            "one value for each process"
        );
        let (mut theirs, length) = (own.to_vec(), size_of::<T>() as c_int);
        let (from, to) = (own.as_ptr().cast(), theirs.as_mut_ptr().cast());
        // SAFETY: one value for each, both ways.
        check(unsafe { real::PMPI_Alltoall(from, length, byte(), to, length, byte(), self) })?;
        Ok(theirs)
    }

    /// The extreme of each place in what all processes have, as many numbers each.
    ///
    /// They are compared as signed numbers of the same order, since MPICH 4.0 (its issue 6083) and
    /// Open MPI 4.1 (its issue 10525) take unsigned ones for signed.
    ///
    /// # Errors
    /// The library's; [`Error::INTERN`] if they are more than 2³¹.
    pub fn extremes(self, extreme: Extreme, own: &[u64]) -> Result<Vec<u64>> {
        const TOP: u64 = 1 << 63;
        let number = RealDatatype(object(c"ompi_mpi_int64_t"));
        let op = RealOp(object(match extreme {
            Extreme::Least => c"ompi_mpi_op_min",
            Extreme::Greatest => c"ompi_mpi_op_max",
        }));
        let count = c_int::try_from(own.len()).map_err(|_| Error::INTERN)?;
        let own: Vec<u64> = own.iter().map(|number| number ^ TOP).collect();
        let mut all = vec![0; own.len()];
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: as many numbers on either side.
        check(unsafe { real::PMPI_Allreduce(from, to, count, number, op, self) })?;
        all.iter_mut().for_each(|number| *number ^= TOP);
        Ok(all)
    }
}
