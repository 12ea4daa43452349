//! In-flight buffers: memory that the MPI library may still read or write.
//!
//! An error of a call does not imply that its transfer has ended: other processes may write until
//! they have left the MPI instance, too. Memory that is not needed any more is kept until then.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Process-wide, because `Drop` has no access to the `Runtime`.
static KEPT_MEMORY: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    KEPT_MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps memory to which a transfer may still write, until [`free_kept`].
pub fn keep(memory: impl Any + Send) {
    kept().push(Box::new(memory));
}

/// Frees all kept memory; all processes must have left the MPI instance.
pub fn free_kept() {
    drop(std::mem::take(&mut *kept()));
}

/// In-flight buffer of a request.
///
/// The memory is kept if the buffer is dropped while the request may be active.
pub struct InFlightBuffer<T: Any + Send + Default> {
    memory: T,
    is_complete: bool,
}

impl<T: Any + Send + Default> InFlightBuffer<T> {
    /// Returns an in-flight buffer, which needs [`InFlightBuffer::complete`] before it may be
    /// freed.
    pub fn new(memory: T) -> InFlightBuffer<T> {
        InFlightBuffer {
            memory,
            is_complete: false,
        }
    }

    /// Records that the request is complete, so only this process uses the memory.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }
}

impl<T: Any + Send + Default> Deref for InFlightBuffer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.memory
    }
}

impl<T: Any + Send + Default> DerefMut for InFlightBuffer<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.memory
    }
}

impl<T: Any + Send + Default> Drop for InFlightBuffer<T> {
    fn drop(&mut self) {
        if !self.is_complete {
            keep(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InFlightBuffer, free_kept};
    use std::sync::Arc;

    #[test]
    fn memory_is_freed_only_when_it_is_back() {
        let buffer = Arc::new(());
        let mut in_flight = InFlightBuffer::new(Some(Arc::clone(&buffer)));
        in_flight.complete();
        drop(in_flight);
        assert_eq!(Arc::strong_count(&buffer), 1);
        drop(InFlightBuffer::new(Some(Arc::clone(&buffer))));
        assert_eq!(
            Arc::strong_count(&buffer),
            2,
            "a transfer under way has lost its memory"
        );
        free_kept();
        assert_eq!(Arc::strong_count(&buffer), 1);
    }
}
