//! State of the main thread.
//!
//! MPI is entered by one thread only (the entry code refuses every other one), or by one at a time, which has the main thread's control
//! block as long as it is there ([`crate::arch::turn`]), so the runtime's state needs no lock. It is kept in a few statics of this type, one for each module that has state. What other threads or signal handlers look at is in
//! atomics, `OnceLock`s and locks instead.
#![allow(unsafe_code)]

use std::any::type_name;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The main thread: address of its control block (fs:0x10), which alone may enter; 0 before the start.
pub(crate) static OWNER: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn this_thread() -> usize {
    let block: usize;
    // SAFETY: glibc's thread control block points to itself at fs:0x10.
    unsafe { std::arch::asm!("mov {}, fs:[0x10]", out(reg) block, options(nostack, readonly, pure, preserves_flags)) };
    block
}

/// Makes the calling thread the main thread.
pub fn set_owner() {
    OWNER.store(this_thread(), Ordering::Relaxed);
}

/// Whether the calling thread is the main thread. Safe in a signal handler.
#[inline]
pub fn is_owner() -> bool {
    this_thread() == OWNER.load(Ordering::Relaxed)
}

/// A value that only the main thread uses: a `RefCell` for statics, whose borrows are checked in release builds, too.
///
/// A borrow must end before a call that may come back to the same state: a callback of the program, or another module that
/// uses it. If it does not, or if another thread borrows, the process ends with a message.
pub struct Main<T>(RefCell<T>);

// SAFETY: every access to the `RefCell` follows a check that this is the main thread; guards cannot be sent to another one.
// A value may have been made by another thread, so it must be `Send`.
unsafe impl<T: Send> Sync for Main<T> {}

impl<T> Main<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Main<T> {
        Main(RefCell::new(value))
    }

    /// Borrows the value to look at it.
    ///
    /// # Panics
    /// If it is borrowed to be changed, or in another thread than the main one.
    #[inline]
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        match self.owned().try_borrow() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is being changed"),
        }
    }

    /// Borrows the value to change it.
    ///
    /// # Panics
    /// If it is borrowed already, or in another thread than the main one.
    #[inline]
    #[track_caller]
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        match self.owned().try_borrow_mut() {
            Ok(value) => value,
            Err(_) => refuse::<T>("is in use"),
        }
    }

    /// Borrows the value to look at it; `None` if it is borrowed to be changed, or in another thread.
    #[inline]
    pub fn try_borrow(&self) -> Option<Ref<'_, T>> {
        if is_owner() { self.0.try_borrow().ok() } else { None }
    }

    /// Borrows the value to change it; `None` if it is borrowed already, or in another thread.
    ///
    /// For what only tells of the job (events, counts of traffic), which must not end it, and for the end itself, which may come
    /// in the middle of anything.
    #[inline]
    pub fn try_borrow_mut(&self) -> Option<RefMut<'_, T>> {
        if is_owner() { self.0.try_borrow_mut().ok() } else { None }
    }

    /// Replaces the value, and returns the one before.
    ///
    /// # Panics
    /// As [`Main::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.borrow_mut(), value)
    }

    /// Sets the value. The one before is dropped when it is not borrowed any more.
    ///
    /// # Panics
    /// As [`Main::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }

    #[inline]
    #[track_caller]
    fn owned(&self) -> &RefCell<T> {
        if !is_owner() {
            refuse::<T>("is used by a thread that is not the main one");
        }
        &self.0
    }
}

impl<T: Default> Main<T> {
    /// Takes the value out, and leaves the default one.
    ///
    /// # Panics
    /// As [`Main::borrow_mut`].
    #[inline]
    #[track_caller]
    pub fn take(&self) -> T {
        self.replace(T::default())
    }
}

/// A small value that only the main thread uses: it is copied in and out, so nothing is ever borrowed.
pub struct Copied<T>(Cell<T>);

// SAFETY: as of `Main`.
unsafe impl<T: Send> Sync for Copied<T> {}

impl<T: Copy> Copied<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Copied<T> {
        Copied(Cell::new(value))
    }

    /// The value.
    ///
    /// # Panics
    /// In another thread than the main one.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> T {
        self.owned().get()
    }

    /// Sets the value.
    ///
    /// # Panics
    /// As [`Copied::get`].
    #[inline]
    #[track_caller]
    pub fn set(&self, value: T) {
        self.owned().set(value);
    }

    #[inline]
    #[track_caller]
    fn owned(&self) -> &Cell<T> {
        if !is_owner() {
            refuse::<T>("is used by a thread that is not the main one");
        }
        &self.0
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
    use super::Main;
    use std::process::{Command, ExitStatus};

    static STATE: Main<u32> = Main::new(1);

    /// Runs one of the tests that end their process, alone and as the main thread.
    fn outcome_of(test: &str) -> (ExitStatus, String) {
        let program = std::env::current_exe().expect("the test has a file");
        let output = Command::new(program)
            .args(["--exact", &format!("cell::tests::{test}"), "--ignored", "--nocapture"])
            .output()
            .expect("it can be started");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn assert_ends(test: &str, why: &str) {
        let (status, said) = outcome_of(test);
        assert!(!status.success(), "{test} came to its end");
        assert!(said.contains("src/cell.rs") && said.contains(why), "{test}: {said}");
    }

    #[test]
    fn a_second_borrow_ends_the_process() {
        assert_ends("change_what_is_looked_at", "u32 is in use");
        assert_ends("look_at_what_is_changed", "u32 is being changed");
    }

    #[test]
    fn another_thread_ends_the_process() {
        assert_ends(
            "look_from_another_thread",
            "u32 is used by a thread that is not the main one",
        );
        assert_ends(
            "look_before_there_is_a_main_thread",
            "u32 is used by a thread that is not the main one",
        );
    }

    #[test]
    fn borrows_that_end_in_time_are_allowed() {
        let (status, said) = outcome_of("borrow_one_after_the_other");
        assert!(status.success(), "{said}");
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn change_what_is_looked_at() {
        super::set_owner();
        let _seen = STATE.borrow();
        STATE.set(2);
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn look_at_what_is_changed() {
        super::set_owner();
        let _changed = STATE.borrow_mut();
        let _seen = STATE.borrow();
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn look_from_another_thread() {
        super::set_owner();
        let other = std::thread::spawn(|| *STATE.borrow());
        assert!(other.join().is_ok());
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn look_before_there_is_a_main_thread() {
        let _seen = STATE.borrow();
    }

    #[test]
    #[ignore = "makes its thread the main one; started by another test"]
    fn borrow_one_after_the_other() {
        super::set_owner();
        *STATE.borrow_mut() += 1;
        assert_eq!(*STATE.borrow() + *STATE.borrow(), 4);
        assert!(STATE.try_borrow_mut().is_some());
        let seen = STATE.borrow();
        assert!(STATE.try_borrow_mut().is_none() && STATE.try_borrow().is_some());
        drop(seen);
        let changed = STATE.borrow_mut();
        assert!(STATE.try_borrow().is_none());
        drop(changed);
        let other = || STATE.try_borrow().is_none() && STATE.try_borrow_mut().is_none();
        assert!(std::thread::spawn(other).join().is_ok_and(|refused| refused));
        assert_eq!((STATE.replace(5), STATE.take(), *STATE.borrow()), (2, 5, 0));
    }
}
