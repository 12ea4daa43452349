//! Arguments that are statuses (MPI 4.1, 3.2.5).
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::arguments::{CalleeMemory, Direction, pointer};
use super::foreign_abi::Pointer;
use crate::real_types::Status;
use std::ffi::c_int;
use std::marker::PhantomData;

/// Error of a status that the callee has not written.
///
/// No library writes this value.
const UNWRITTEN: c_int = c_int::MIN;

/// Statuses that an argument points to, or the constant for ignored statuses.
///
/// At most `INLINE` statuses need no memory on the heap.
pub struct Statuses<E: Edge, const INLINE: usize> {
    caller: *mut u8,
    /// Pointer that is passed instead of statuses.
    constant: Option<*mut u8>,
    length: usize,
    direction: Direction,
    /// Statuses of 32 bytes, the largest of all ABIs.
    memory: CalleeMemory<[u64; 4], INLINE>,
    edge: PhantomData<E>,
}

impl<E: Edge, const INLINE: usize> Statuses<E, INLINE> {
    /// Returns the sizes in bytes of the caller's and of the callee's statuses.
    fn sizes() -> (usize, usize) {
        let foreign = E::abi().status.size;
        if E::INWARD {
            (foreign, size_of::<Status>())
        } else {
            (size_of::<Status>(), foreign)
        }
    }

    #[inline]
    unsafe fn read(is_foreign: bool, address: *const u8) -> Status {
        // SAFETY: every caller passes the address of a status of this ABI.
        unsafe {
            if is_foreign {
                E::abi().read_status(address)
            } else {
                address.cast::<Status>().read_unaligned()
            }
        }
    }

    #[inline]
    unsafe fn write(is_foreign: bool, address: *mut u8, status: &Status) {
        // SAFETY: every caller passes an address with space for a status of this ABI.
        unsafe {
            if is_foreign {
                E::abi().write_status(address, status)
            } else {
                address.cast::<Status>().write_unaligned(*status)
            }
        }
    }

    /// Returns the argument, without converted statuses yet.
    ///
    /// `caller` points to `length` statuses, or memory for them, or is the constant.
    #[inline(always)]
    pub fn new(kind: Pointer, caller: *mut u8, length: usize, direction: Direction) -> Self {
        let converted = pointer::<E>(kind, caller);
        let is_constant = caller.is_null() || converted != caller;
        let length = if is_constant { 0 } else { length };
        Statuses {
            caller,
            constant: is_constant.then_some(converted),
            length,
            direction,
            memory: CalleeMemory::new(length),
            edge: PhantomData,
        }
    }

    /// Converts the statuses of the caller.
    ///
    /// # Safety
    /// The caller's pointer must be as described at [`Statuses::new`].
    #[inline]
    pub unsafe fn convert_arguments(&mut self) {
        let (from, to) = Self::sizes();
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that its pointer, unless the constant, points to
            // `length` statuses; the memory is large enough for either ABI. Members that the callee
            // does not write keep their present values. MPICH writes only whether a send was
            // cancelled.
            unsafe {
                let mut status = Self::read(E::INWARD, self.caller.add(index * from));
                if self.direction == Direction::Out {
                    status.error = UNWRITTEN;
                }
                Self::write(!E::INWARD, memory.add(index * to), &status);
            }
        }
    }

    /// Returns the address of the statuses for the callee.
    #[inline]
    pub fn callee_pointer(&mut self) -> *mut u8 {
        match self.constant {
            Some(constant) => constant,
            None => self.memory.as_mut_ptr().cast(),
        }
    }

    /// Converts the statuses for the caller after the call.
    ///
    /// # Safety
    /// The requirements of [`Statuses::new`] apply.
    #[inline]
    pub unsafe fn convert_results(&mut self, _: bool) {
        let (from, to) = Self::sizes();
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for index in 0..self.length {
            // SAFETY: the caller guarantees that `self.caller` points to `length` statuses.
            unsafe {
                let address = self.caller.add(index * from);
                let previous = Self::read(E::INWARD, address).error;
                let mut status = Self::read(!E::INWARD, memory.add(index * to));
                // An error that the callee has not written is the caller's code, which needs no
                // conversion.
                let is_unwritten = match self.direction {
                    Direction::Out => status.error == UNWRITTEN,
                    Direction::In | Direction::InOut => status.error == previous,
                };
                status.error = match is_unwritten {
                    true => previous,
                    false => E::error_for_caller(status.error),
                };
                Self::write(E::INWARD, address, &status);
            }
        }
    }
}
