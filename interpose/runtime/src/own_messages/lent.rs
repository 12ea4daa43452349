//! Memory that is lent to the MPI library.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// Memory that a request may still read or write: it is leaked if it is dropped before it is back.
///
/// A test that returns an error does not say that the transfer has ended.
pub struct Lent<T> {
    memory: ManuallyDrop<T>,
    is_back: bool,
}

impl<T> Lent<T> {
    /// Lends memory, until [`Lent::give_back`] is called.
    pub fn new(memory: T) -> Lent<T> {
        Lent {
            memory: ManuallyDrop::new(memory),
            is_back: false,
        }
    }

    /// The request has ended: nobody else uses the memory any more.
    pub fn give_back(&mut self) {
        self.is_back = true;
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.memory
    }
}

#[allow(unsafe_code)]
impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if self.is_back {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lent;
    use std::rc::Rc;

    #[test]
    fn memory_is_freed_only_when_it_is_back() {
        let buffer = Rc::new(());
        drop(Lent::new(Rc::clone(&buffer)));
        assert_eq!(Rc::strong_count(&buffer), 2, "a transfer under way has lost its memory");
        let mut lent = Lent::new(Rc::clone(&buffer));
        lent.give_back();
        drop(lent);
        assert_eq!(Rc::strong_count(&buffer), 2);
    }
}
