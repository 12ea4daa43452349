//! In-flight buffers: memory that the MPI library may still read or write.
//!
//! An error of a call does not imply that its transfer has ended: other processes may write until
//! they have left the MPI instance, too. Memory that is not needed any more is kept until then.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Process-wide, because `Drop` has no access to the `Runtime`.
static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps memory to which a transfer may still write, until [`all_is_back`].
pub fn keep(memory: impl Any + Send) {
    kept().push(Box::new(memory));
}

/// Frees all kept memory; all processes must have left the MPI instance.
pub fn all_is_back() {
    drop(std::mem::take(&mut *kept()));
}

/// In-flight buffer of a request.
///
/// Its memory is kept if it is dropped while the request may be active.
pub struct Lent<T: Any + Send + Default> {
    memory: T,
    is_back: bool,
}

impl<T: Any + Send + Default> Lent<T> {
    /// Returns an in-flight buffer, which needs [`Lent::give_back`] before it may be freed.
    pub fn new(memory: T) -> Lent<T> {
        Lent {
            memory,
            is_back: false,
        }
    }

    /// Records that the request is complete, so only this process uses the memory.
    pub fn give_back(&mut self) {
        self.is_back = true;
    }
}

impl<T: Any + Send + Default> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.memory
    }
}

impl<T: Any + Send + Default> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.memory
    }
}

impl<T: Any + Send + Default> Drop for Lent<T> {
    fn drop(&mut self) {
        if !self.is_back {
            keep(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lent, all_is_back};
    use std::sync::Arc;

    #[test]
    fn memory_is_freed_only_when_it_is_back() {
        let buffer = Arc::new(());
        let mut lent = Lent::new(Some(Arc::clone(&buffer)));
        lent.give_back();
        drop(lent);
        assert_eq!(Arc::strong_count(&buffer), 1);
        drop(Lent::new(Some(Arc::clone(&buffer))));
        assert_eq!(
            Arc::strong_count(&buffer),
            2,
            "a transfer under way has lost its memory"
        );
        all_is_back();
        assert_eq!(Arc::strong_count(&buffer), 1);
    }
}
