//! Reports new POSIX message queues of the program to the runtime.
#![allow(unsafe_code)]

use crate::effect_reports::report;
use crate::libc::next;
use crate::{stop, threads};
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::AtomicPtr;
use understudy_abi::effect;

const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

type Open = unsafe extern "C" fn(*const c_char, c_int, c_uint, *const c_void) -> c_int;

/// mq_open(3).
///
/// The variadic arguments are passed in registers, whether the program has passed them or not.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_open(
    name: *const c_char,
    flags: c_int,
    mode: c_uint,
    attributes: *const c_void,
) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: Open = core::mem::transmute(next(&REAL, c"mq_open"));
        if flags & O_CREAT == 0 {
            return real(name, flags, mode, attributes);
        }
        let mut is_blocked = threads::block_stops();
        let errno = *__errno_location();
        // The first call fails if the queue exists, and thus shows whether a queue was created.
        let mut queue = real(name, flags | O_EXCL, mode, attributes);
        let is_new = queue >= 0;
        if !is_new && flags & O_EXCL == 0 {
            *__errno_location() = errno;
            queue = real(name, flags, mode, attributes);
        }
        if is_new {
            is_blocked |= report(effect::POSIX_QUEUE, queue, name, 0);
        }
        if is_blocked {
            stop::unblock();
        }
        queue
    }
}
