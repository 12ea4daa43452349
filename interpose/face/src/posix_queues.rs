//! Reports new POSIX message queues of the program to the runtime.
#![allow(unsafe_code)]

use crate::effect_reports::report;
use crate::exclusive_creation::open_or_create;
use crate::libc::next_function;
use crate::{stop, threads};
use core::ffi::{c_char, c_int, c_uint, c_void};
use understudy_abi::effect;
use understudy_abi::exclusive_creation::Attempt;

const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;

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
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real = next_function!(c"mq_open", Open);
        if flags & O_CREAT == 0 {
            return real(name, flags, mode, attributes);
        }
        let mut is_blocked = threads::block_stops();
        let (queue, is_new) = if flags & O_EXCL == 0 {
            open_or_create(|attempt| match attempt {
                Attempt::Create => real(name, flags | O_EXCL, mode, attributes),
                Attempt::Open => real(name, flags & !O_CREAT, mode, attributes),
            })
        } else {
            let queue = real(name, flags, mode, attributes);
            (queue, queue >= 0)
        };
        if is_new {
            is_blocked |= report(effect::POSIX_QUEUE, queue, name, 0);
        }
        if is_blocked {
            stop::unblock();
        }
        queue
    }
}
