//! Memory that is lent to the MPI library.
//!
//! A call that returns an error does not say that its transfer has ended: other processes may write
//! until they have left the generation of the job, too. Memory that is not needed any more is kept
//! until then.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A matter of the process: what is dropped, wherever that is, knows of no runtime.
static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what a transfer may still write to, until [`all_is_back`].
pub fn keep(memory: impl Any + Send) {
    kept().push(Box::new(memory));
}

/// All processes have left the generation: nobody writes to anything that was lent.
pub fn all_is_back() {
    drop(std::mem::take(&mut *kept()));
}

/// Memory that a request may still read or write: it is kept if it is dropped before it is back.
pub struct Lent<T: Any + Send + Default> {
    memory: T,
    is_back: bool,
}

impl<T: Any + Send + Default> Lent<T> {
    /// Lends memory, until [`Lent::give_back`] is called.
    pub fn new(memory: T) -> Lent<T> {
        Lent {
            memory,
            is_back: false,
        }
    }

    /// The request has ended: nobody else uses the memory any more.
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
