//! Containers of the runtime's state.
//!
//! The runtime is used by one thread at a time. Either only the main thread of the program may
//! enter MPI, or the MPI lock ([`crate::arch::mpi_lock`]) admits one thread after the other. In the
//! second case, each thread has the main thread's control block (fs register) while it is in the
//! runtime. The state therefore needs no lock of its own. The state is one value; each handler
//! receives a reference to the value and passes the reference on.
//!
//! Each crate with state has one struct `Runtime`: the state of its modules, and the state of the
//! crate below. The crate of a function's `Runtime` determines the state that the function can
//! use. State for other threads and signal handlers is in atomics, `OnceLock`s and locks instead.
#![allow(unsafe_code)]

use std::any::type_name;
use std::cell::{Ref, RefCell, RefMut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use understudy_abi::control_block;

/// Address of the main thread's control block (fs:0x10); 0 before the start.
///
/// Only a thread with this control block may use the runtime.
pub static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Makes the calling thread the main thread.
pub fn set_main_thread() {
    MAIN_THREAD.store(control_block::address(), Ordering::Relaxed);
}

/// True if the calling thread has the main thread's control block. Safe in a signal handler.
#[inline]
pub fn is_main_thread() -> bool {
    control_block::address() == MAIN_THREAD.load(Ordering::Relaxed)
}

/// Defines the `Runtime` of a crate.
///
/// The type after the colon of the struct is the `Runtime` of the crate below, whose fields are
/// reached through `Deref`. The expression after `=` is the value of a field at the start of the
/// process.
#[macro_export]
macro_rules! runtime {
    (
        pub struct Runtime $(: $below:ty)? {
            $($(#[$doc:meta])* $vis:vis $name:ident: $type:ty = $start:expr,)*
        }
    ) => {
        /// State of this crate and of the crates below.
        pub struct Runtime {
            $(below: $below,)?
            $($(#[$doc])* $vis $name: $type,)*
        }

        impl Runtime {
            /// Returns the state at the start of the process.
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

/// Runtime of this process, which only the main thread may use.
pub struct MainThreadOnly<T>(T);

// SAFETY: `get` refuses every other thread. A reference to a `Runtime` cannot be sent to another
// thread, because the type contains cells.
unsafe impl<T> Sync for MainThreadOnly<T> {}

impl<T> MainThreadOnly<T> {
    /// Wraps the runtime at the start of the process.
    pub const fn new(runtime: T) -> MainThreadOnly<T> {
        MainThreadOnly(runtime)
    }

    /// Returns the runtime.
    ///
    /// # Panics
    /// Panics in any thread other than the main thread.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> &T {
        assert!(
            is_main_thread(),
            "the runtime is used by a thread that is not the main one"
        );
        &self.0
    }
}

/// Access to a crate's `Runtime` for code that the MPI library or the kernel calls.
pub struct RuntimeAccess<T>(AtomicPtr<T>);

impl<T> RuntimeAccess<T> {
    /// Creates an access that returns no runtime yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> RuntimeAccess<T> {
        RuntimeAccess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Sets the runtime that the access returns, at the start of the process.
    pub fn open(&self, runtime: &'static T) {
        self.0
            .store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Relaxed);
    }

    /// Returns the runtime.
    ///
    /// # Panics
    /// Panics in any thread other than the main thread, or before the start.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> &'static T {
        self.try_get()
            .expect("the runtime is set, and this is the main thread")
    }

    /// Returns the runtime; `None` in threads other than the main one, and before the start.
    #[inline]
    pub fn try_get(&self) -> Option<&'static T> {
        let runtime = self.0.load(Ordering::Relaxed);
        match is_main_thread() {
            // SAFETY: `open` has stored a reference that is valid forever; only the main thread
            // receives the reference.
            true => unsafe { runtime.as_ref() },
            false => None,
        }
    }
}

/// Part of the runtime's state: a `RefCell` whose panic message names its type.
///
/// A borrow must end before a call that may borrow the same cell: a callback of the program, or a
/// function of another module. Otherwise the process ends with a message.
pub struct StateCell<T>(RefCell<T>);

impl<T> StateCell<T> {
    pub const fn new(value: T) -> StateCell<T> {
        StateCell(RefCell::new(value))
    }

    /// Borrows the value for reading.
    ///
    /// # Panics
    /// Panics if the value is borrowed mutably.
    #[inline]
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        match self.0.try_borrow() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is being changed"),
        }
    }

    /// Borrows the value mutably.
    ///
    /// # Panics
    /// Panics if the value is borrowed.
    #[inline]
    #[track_caller]
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        match self.0.try_borrow_mut() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is in use"),
        }
    }

    /// Borrows the value mutably; `None` if it is borrowed.
    ///
    /// The method is for code that may run while the cell is borrowed and must not panic: the
    /// recording of events, and the end of the process.
    #[inline]
    pub fn try_borrow_mut(&self) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }

    /// Replaces the value and returns the previous one.
    ///
    /// # Panics
    /// Panics like [`StateCell::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.borrow_mut(), value)
    }

    /// Sets the value. The previous one is dropped after the borrow has ended.
    ///
    /// # Panics
    /// Panics like [`StateCell::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }
}

impl<T: Default> StateCell<T> {
    /// Takes the value out and leaves the default.
    ///
    /// # Panics
    /// Panics like [`StateCell::borrow_mut`].
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
    use super::{MainThreadOnly, RuntimeAccess, StateCell, set_main_thread};
    use std::panic::catch_unwind;
    use std::thread;

    #[test]
    #[should_panic(expected = "u32 is in use")]
    fn shared_borrows_exclude_mutable_ones() {
        let field = StateCell::new(1_u32);
        let _seen = field.borrow();
        field.set(2);
    }

    #[test]
    #[should_panic(expected = "u32 is being changed")]
    fn mutable_borrows_exclude_shared_ones() {
        let field = StateCell::new(1_u32);
        let _changed = field.borrow_mut();
        let _seen = field.borrow();
    }

    #[test]
    fn borrows_that_end_in_time_are_allowed() {
        let field = StateCell::new(1_u32);
        *field.borrow_mut() += 1;
        assert_eq!(*field.borrow() + *field.borrow(), 4);
        assert!(field.try_borrow_mut().is_some());
        let seen = field.borrow();
        assert!(field.try_borrow_mut().is_none());
        drop(seen);
        assert_eq!((field.replace(5), field.take(), *field.borrow()), (2, 5, 0));
    }

    /// Only the main thread gets the runtime; before one is set, no thread does.
    ///
    /// All cases are in one test, because the main thread is set for the whole test process.
    #[test]
    fn only_the_main_thread_gets_the_runtime() {
        static RUNTIME: MainThreadOnly<u32> = MainThreadOnly::new(1);
        static UNSET: RuntimeAccess<u32> = RuntimeAccess::new();
        static ACCESS: RuntimeAccess<u32> = RuntimeAccess::new();
        let is_refused =
            || catch_unwind(|| *RUNTIME.get()).is_err() && catch_unwind(|| *ACCESS.get()).is_err();
        ACCESS.open(&2);
        assert!(is_refused(), "there is no main thread yet");
        set_main_thread();
        assert_eq!((*RUNTIME.get(), *ACCESS.get()), (1, 2));
        assert!(UNSET.try_get().is_none(), "no runtime is set");
        let other = thread::spawn(move || is_refused() && ACCESS.try_get().is_none());
        assert!(other.join().is_ok_and(|refused| refused));
    }
}
