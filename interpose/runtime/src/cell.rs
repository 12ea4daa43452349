//! State of the main thread.
//!
//! MPI is entered by one thread only (the entry code refuses every other one), so the runtime's state needs no lock. It
//! is kept in a few statics of this type, one for each module that has state.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// A value that only the main thread uses, and only from inside the runtime.
pub struct Main<T>(UnsafeCell<T>);

// SAFETY: only the main thread calls `get`; the entry code sends every other thread away.
unsafe impl<T> Sync for Main<T> {}

impl<T> Main<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Main<T> {
        Main(UnsafeCell::new(value))
    }

    /// The value. A borrow must not be held across a call that may come back to the same state: a callback of the
    /// program, or another module that uses it.
    #[allow(clippy::mut_from_ref)]
    pub fn get(&self) -> &mut T {
        // SAFETY: one thread; callers keep borrows short, as said above.
        unsafe { &mut *self.0.get() }
    }
}
