//! Translations of arguments whose meaning depends on other arguments.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::arguments::to_caller;
use super::foreign_abi::Domain;
use std::ffi::c_int;

/// `MPI_COMBINER_SUBARRAY` and `MPI_COMBINER_DARRAY` of Open MPI.
const SUBARRAY: c_int = 12;
const DARRAY: c_int = 13;

/// Returns a datatype's constructor, and its numbers of integers and large counts.
///
/// `slot` is that of `MPI_Type_get_envelope`, or of its variant for large counts if `is_large`.
///
/// # Safety
/// The datatype must be the callee's, and the library must have the procedure of the slot.
unsafe fn envelope<E: Edge>(datatype: u64, is_large: bool, slot: usize) -> (c_int, usize, usize) {
    type Envelope =
        unsafe extern "C" fn(u64, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    type Large =
        unsafe extern "C" fn(u64, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int;
    let (mut combiner, mut integers, mut counts) = (0, 0, 0);
    // SAFETY: the caller passes the slot of a procedure of this type; results are variables of this
    // function.
    unsafe {
        if is_large {
            let envelope: Large = std::mem::transmute(E::callee(slot));
            envelope(
                datatype,
                &mut integers,
                &mut 0,
                &mut counts,
                &mut 0,
                &mut combiner,
            );
        } else {
            let mut int_count = 0;
            let envelope: Envelope = std::mem::transmute(E::callee(slot));
            envelope(datatype, &mut int_count, &mut 0, &mut 0, &mut combiner);
            integers = int_count.into();
        }
    }
    if !E::INWARD {
        combiner = E::abi().canonical(Domain::Combiner, combiner);
    }
    (combiner, integers as usize, counts as usize)
}

/// Translates the constants among the integers of `MPI_Type_get_contents` (MPI 4.1, 5.1.13).
///
/// `is_large` means `MPI_Type_get_contents_c`; `slot` is the slot for [`envelope`].
///
/// # Safety
/// `integers` must point to all integers that the callee has written for this datatype. The
/// requirements of [`envelope`] apply.
pub(super) unsafe fn contents<E: Edge>(
    datatype: u64,
    integers: *mut u8,
    is_success: bool,
    is_large: bool,
    slot: usize,
) {
    if integers.is_null() || !is_success {
        return;
    }
    let integers = integers.cast::<c_int>();
    // SAFETY: the arrays have the lengths that the callee reports.
    unsafe {
        let (combiner, length, counts) = envelope::<E>(datatype, is_large, slot);
        let translate = |domain: Domain, index: usize| {
            let integer = integers.add(index);
            integer.write_unaligned(to_caller::<E>(domain, integer.read_unaligned()));
        };
        match combiner {
            SUBARRAY => translate(Domain::Order, length - 1),
            DARRAY => {
                let dimensions = integers.add(2).read_unaligned() as usize;
                // The integers are size, rank, number of dimensions, sizes of the array (unless the
                // sizes are large counts), distributions, arguments of the distributions, process
                // grid, order.
                let first = if counts == 0 { 3 + dimensions } else { 3 };
                for index in 0..dimensions {
                    translate(Domain::Distribution, first + index);
                    translate(Domain::DistributionArgument, first + dimensions + index);
                }
                translate(Domain::Order, length - 1);
            }
            _ => {}
        }
    }
}

/// Copies a status between C and Fortran, whose statuses are equal.
///
/// Open MPI's statuses differ, but calls of a library with Open MPI's ABI pass no edge.
///
/// # Safety
/// `from` and `to` must point to statuses of the ABI that is not Open MPI's.
pub(super) unsafe fn copy_status<E: Edge>(from: *mut u8, to: *mut u8) -> c_int {
    // SAFETY: the caller guarantees that both addresses are those of statuses of this ABI.
    unsafe { to.copy_from_nonoverlapping(from, E::abi().status.size) };
    0
}
