//! What the kinds of parameters do not tell.
#![allow(unsafe_code)]

use super::arguments::back;
use super::{Domain, Edge};
use std::ffi::c_int;

/// `MPI_COMBINER_SUBARRAY` and `MPI_COMBINER_DARRAY` of Open MPI.
const SUBARRAY: c_int = 12;
const DARRAY: c_int = 13;

/// Of the integers that `MPI_Type_get_contents` gives, some are constants (MPI 4.1, 5.1.13).
///
/// # Safety
/// `integers` must be as many as the callee has written.
pub(super) unsafe fn contents<E: Edge>(datatype: u64, integers: *mut u8, is_success: bool) {
    type Envelope = unsafe extern "C" fn(u64, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    if integers.is_null() || !is_success {
        return;
    }
    let integers = integers.cast::<c_int>();
    let (mut count, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
    // SAFETY: the procedure of this slot; the arrays are as long as it says.
    unsafe {
        let envelope: Envelope = std::mem::transmute(E::callee(super::edges::TYPE_GET_ENVELOPE));
        envelope(datatype, &mut count, &mut addresses, &mut datatypes, &mut combiner);
        if !E::INWARD {
            combiner = E::abi().canonical(Domain::Combiner, combiner);
        }
        let translate = |domain: Domain, index: usize| {
            let at = integers.add(index);
            at.write_unaligned(back::<E>(domain, at.read_unaligned()));
        };
        let last = count as usize - 1;
        match combiner {
            SUBARRAY => translate(Domain::Order, last),
            DARRAY => {
                let dimensions = integers.add(2).read_unaligned() as usize;
                for index in 0..dimensions {
                    translate(Domain::Distribution, 3 + dimensions + index);
                    translate(Domain::DistributionArgument, 3 + 2 * dimensions + index);
                }
                translate(Domain::Order, last);
            }
            _ => {}
        }
    }
}

/// A status is the same in C and Fortran (but in Open MPI, whose edge has no such function).
///
/// # Safety
/// Both must be statuses of the other ABI.
pub(super) unsafe fn copy_status<E: Edge>(from: *mut u8, to: *mut u8) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, E::abi().status.size) };
    0
}
