//! Calls of the program that return or take its own process number.
#![allow(unsafe_code)]

use crate::libc::next;
use crate::sys::{nr, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicPtr;
use understudy_abi::process_number::SeenNumber;

/// Number that the program sees; the runtime sets it in a replacement.
pub static SEEN_NUMBER: SeenNumber = SeenNumber::new();

fn own_number() -> c_int {
    // SAFETY: getpid(2) has no preconditions.
    unsafe { sys!(nr::GETPID) as c_int }
}

/// getpid(2): returns the number that the program sees.
///
/// A replacement returns the number of the failed process.
pub extern "C" fn seen() -> c_int {
    SEEN_NUMBER.seen_by(own_number())
}

/// Defines libc's functions whose first argument is the number of a process.
macro_rules! with_real_number {
    ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(process: c_int $(, $argument: $kind)*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &core::ffi::CStr = crate::libc::c_name(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let real: unsafe extern "C" fn(c_int $(, $kind)*) -> c_int =
                    core::mem::transmute(next(&REAL, NAME));
                real(SEEN_NUMBER.real(process, own_number()) $(, $argument)*)
            }
        }
    )*};
}

with_real_number! {
    fn kill(signal: c_int);
    fn sigqueue(signal: c_int, value: *mut c_void);
    fn getpgid();
    fn getsid();
    fn sched_getaffinity(size: usize, mask: *mut c_void);
    fn sched_setaffinity(size: usize, mask: *const c_void);
    fn sched_getscheduler();
    fn sched_setscheduler(policy: c_int, parameter: *const c_void);
    fn sched_getparam(parameter: *mut c_void);
    fn sched_setparam(parameter: *const c_void);
}
