//! Whether anything is to be done beside the message: the one byte that every call about messages
//! looks at.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
pub use understudy_abi::turn::SEVERAL;

/// A checkpoint is under way.
pub const PENDING: u8 = 1;
/// No cut has come for long: one is wanted wherever the workers are.
pub const ASKED: u8 = 2;
/// The workers are agreeing on such a cut.
pub const AGREEING: u8 = 4;
/// The next call is one that had begun at the cut to which the program was set back.
pub const RESUMES: u8 = 8;

const _: () = assert!(SEVERAL & (PENDING | ASKED | AGREEING | RESUMES) == 0);

static BITS: AtomicU8 = AtomicU8::new(0);
/// Several threads may call MPI at the same time.
static IS_MULTIPLE: AtomicBool = AtomicBool::new(false);

/// For others who set bits.
pub fn bits() -> &'static AtomicU8 {
    &BITS
}

/// Whether several threads of a process may call MPI at the same time (MPI_THREAD_MULTIPLE), as all
/// workers have agreed.
#[inline(always)]
pub fn is_multiple() -> bool {
    IS_MULTIPLE.load(Ordering::Relaxed)
}

/// From now on several threads may.
pub fn be_multiple() {
    IS_MULTIPLE.store(true, Ordering::Relaxed);
}

/// Whether there is anything at all.
#[inline(always)]
pub fn is_on() -> bool {
    BITS.load(Ordering::Relaxed) != 0
}

/// Whether there is any of this.
#[inline(always)]
pub fn is(bits: u8) -> bool {
    BITS.load(Ordering::Relaxed) & bits != 0
}

/// From now on there is this. Safe in any thread.
pub fn set(bits: u8) {
    BITS.fetch_or(bits, Ordering::Relaxed);
}

/// There is no more of this.
pub fn clear(bits: u8) {
    BITS.fetch_and(!bits, Ordering::Relaxed);
}
