//! What the runtime's state is made of.
//!
//! MPI is entered by one thread only (the entry code refuses every other one), or by one at a time,
//! which has the main thread's control block as long as it is there ([`crate::arch::turn`]). So the
//! state needs no lock: it is one value, to which the handler that has been entered has a
//! reference, and which it hands on. Each crate with state has one struct `Runtime`: the state of
//! its modules on top of that of the crate below. A function with a reference to one can do what
//! that crate and those below it can. State for other threads and signal handlers is in atomics,
//! `OnceLock`s and locks instead.
#![allow(unsafe_code)]

use std::any::type_name;
use std::cell::{Ref, RefCell, RefMut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use understudy_abi::control_block;

/// The main thread: address of its control block (fs:0x10), which alone may enter; 0 before the
/// start.
pub static OWNER: AtomicUsize = AtomicUsize::new(0);

/// Makes the calling thread the main thread.
pub fn set_owner() {
    OWNER.store(control_block::address(), Ordering::Relaxed);
}

/// Whether the calling thread is the main thread. Safe in a signal handler.
#[inline]
pub fn is_owner() -> bool {
    control_block::address() == OWNER.load(Ordering::Relaxed)
}

/// Defines the `Runtime` of a crate.
///
/// The type after the colon is the `Runtime` of the crate below. Each field has its value at the
/// start of the process.
#[macro_export]
macro_rules! runtime {
    (pub struct Runtime $(: $below:ty)? { $($(#[$doc:meta])* $vis:vis $name:ident: $type:ty = $start:expr,)* }) => {
        /// State of this crate and of the crates below.
        pub struct Runtime {
            $(below: $below,)?
            $($(#[$doc])* $vis $name: $type,)*
        }

        impl Runtime {
            /// At the start of the process.
            #[allow(clippy::new_without_default)]
            pub const fn new() -> Runtime {
                Runtime {
                    $(below: <$below>::new(),)?
                    $($name: $start,)*
                }
            }
        }

        $(impl std::ops::Deref for Runtime {
            type Target = $below;

            #[inline]
            fn deref(&self) -> &$below {
                &self.below
            }
        })?
    };
}
pub use crate::runtime;

/// The runtime of this process, to be entered by the main thread only.
pub struct Entered<T>(T);

// SAFETY: `get` refuses every other thread, and a reference to a `Runtime`, which has cells, cannot
// be sent to one.
unsafe impl<T> Sync for Entered<T> {}

impl<T> Entered<T> {
    /// Wraps the runtime at the start of the process.
    pub const fn new(runtime: T) -> Entered<T> {
        Entered(runtime)
    }

    /// The runtime.
    ///
    /// # Panics
    /// In another thread than the main one.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> &T {
        assert!(
            is_owner(),
            "the runtime is used by a thread that is not the main one"
        );
        &self.0
    }
}

/// Access to the `Runtime` of a crate for code that the library or the kernel calls.
pub struct Door<T>(AtomicPtr<T>);

impl<T> Door<T> {
    /// Nothing has been handed down yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Door<T> {
        Door(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Hands the runtime down, at the start.
    pub fn open(&self, runtime: &'static T) {
        self.0
            .store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Relaxed);
    }

    /// The runtime.
    ///
    /// # Panics
    /// In another thread than the main one, or before the start.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> &'static T {
        self.try_get()
            .expect("the runtime is handed down, and this is the main thread")
    }

    /// The runtime; `None` in another thread than the main one, and before the start.
    #[inline]
    pub fn try_get(&self) -> Option<&'static T> {
        let runtime = self.0.load(Ordering::Relaxed);
        match is_owner() {
            // SAFETY: `open` has stored a reference that is valid for ever; only the main thread
            // gets it.
            true => unsafe { runtime.as_ref() },
            false => None,
        }
    }
}

/// A part of the runtime's state: a `RefCell` that says which part it is when it is used wrongly.
///
/// A borrow must end before a call that may come back to the same state: a callback of the program,
/// or another module that uses it. If it does not, the process ends with a message.
pub struct Field<T>(RefCell<T>);

impl<T> Field<T> {
    pub const fn new(value: T) -> Field<T> {
        Field(RefCell::new(value))
    }

    /// Borrows the value to look at it.
    ///
    /// # Panics
    /// If it is borrowed to be changed.
    #[inline]
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        match self.0.try_borrow() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is being changed"),
        }
    }

    /// Borrows the value to change it.
    ///
    /// # Panics
    /// If it is borrowed already.
    #[inline]
    #[track_caller]
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        match self.0.try_borrow_mut() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is in use"),
        }
    }

    /// Borrows the value to change it; `None` if it is borrowed already.
    ///
    /// For what only tells of the job (events), which must not end it, and for the end itself,
    /// which may come in the middle of anything.
    #[inline]
    pub fn try_borrow_mut(&self) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }

    /// Replaces the value, and returns the one before.
    ///
    /// # Panics
    /// As [`Field::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.borrow_mut(), value)
    }

    /// Sets the value. The one before is dropped when it is not borrowed any more.
    ///
    /// # Panics
    /// As [`Field::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }
}

impl<T: Default> Field<T> {
    /// Takes the value out, and leaves the default one.
    ///
    /// # Panics
    /// As [`Field::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn take(&self) -> T {
        self.replace(T::default())
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse<T>(why: &str) -> ! {
    panic!("{} {why}", type_name::<T>())
}

#[cfg(test)]
mod tests {
    use super::{Door, Entered, Field, set_owner};
    use std::panic::catch_unwind;
    use std::thread;

    #[test]
    #[should_panic(expected = "u32 is in use")]
    fn what_is_looked_at_cannot_be_changed() {
        let field = Field::new(1_u32);
        let _seen = field.borrow();
        field.set(2);
    }

    #[test]
    #[should_panic(expected = "u32 is being changed")]
    fn what_is_changed_cannot_be_looked_at() {
        let field = Field::new(1_u32);
        let _changed = field.borrow_mut();
        let _seen = field.borrow();
    }

    #[test]
    fn borrows_that_end_in_time_are_allowed() {
        let field = Field::new(1_u32);
        *field.borrow_mut() += 1;
        assert_eq!(*field.borrow() + *field.borrow(), 4);
        assert!(field.try_borrow_mut().is_some());
        let seen = field.borrow();
        assert!(field.try_borrow_mut().is_none());
        drop(seen);
        assert_eq!((field.replace(5), field.take(), *field.borrow()), (2, 5, 0));
    }

    /// All about threads is in one test, since there is one main thread in a process.
    #[test]
    fn only_the_main_thread_gets_the_runtime() {
        static RUNTIME: Entered<u32> = Entered::new(1);
        static CLOSED: Door<u32> = Door::new();
        static DOOR: Door<u32> = Door::new();
        let is_refused =
            || catch_unwind(|| *RUNTIME.get()).is_err() && catch_unwind(|| *DOOR.get()).is_err();
        DOOR.open(&2);
        assert!(is_refused(), "there is no main thread yet");
        set_owner();
        assert_eq!((*RUNTIME.get(), *DOOR.get()), (1, 2));
        assert!(CLOSED.try_get().is_none(), "nothing was handed down");
        let other = thread::spawn(move || is_refused() && DOOR.try_get().is_none());
        assert!(other.join().is_ok_and(|refused| refused));
    }
}
