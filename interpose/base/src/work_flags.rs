//! Work flags: the one byte by which communication calls detect pending work.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
pub use understudy_abi::mpi_lock::MULTIPLE_THREADS;

/// Checkpoint in progress, which calls must advance.
pub const PENDING: u8 = 1;
/// The workers must agree on a cut at whatever communication calls they are in.
///
/// Set if no cut has been taken for some intervals.
pub const CUT_REQUESTED: u8 = 2;
/// The workers are agreeing on a cut at whatever communication calls they are in.
pub const AGREEING: u8 = 4;
/// Repetition, after a rollback, of a blocking call that had started requests before the cut.
pub const RESUMES: u8 = 8;

const _: () = assert!(MULTIPLE_THREADS & (PENDING | CUT_REQUESTED | AGREEING | RESUMES) == 0);

static BITS: AtomicU8 = AtomicU8::new(0);
/// True if several threads may call MPI concurrently.
static IS_MULTIPLE: AtomicBool = AtomicBool::new(false);

/// Returns the byte, for code outside of this crate that tests or sets flags.
pub fn bits() -> &'static AtomicU8 {
    &BITS
}

/// True if several threads of a process may call MPI concurrently (MPI_THREAD_MULTIPLE).
///
/// All workers have agreed on concurrent calls.
#[inline(always)]
pub fn is_multiple() -> bool {
    IS_MULTIPLE.load(Ordering::Relaxed)
}

/// Allows several threads to call MPI concurrently.
pub fn set_multiple() {
    IS_MULTIPLE.store(true, Ordering::Relaxed);
}

/// True if any flag is set.
#[inline(always)]
pub fn is_any_set() -> bool {
    BITS.load(Ordering::Relaxed) != 0
}

/// True if any of these flags is set.
#[inline(always)]
pub fn is_set(bits: u8) -> bool {
    BITS.load(Ordering::Relaxed) & bits != 0
}

/// Sets flags. Safe in any thread.
pub fn set(bits: u8) {
    BITS.fetch_or(bits, Ordering::Relaxed);
}

/// Clears flags.
pub fn clear(bits: u8) {
    BITS.fetch_and(!bits, Ordering::Relaxed);
}
