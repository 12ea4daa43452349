//! What depends on the processor, but for the entry (`entry` of the runtime): where the program is,
//! calling back into it, letting it go on.
#![allow(unsafe_code)]

mod frame;
mod guard;
pub mod raw;
mod risk;
pub mod turn;
mod x86_64;

pub use frame::{BASE, FRAME_SIZE, OFFSET_OF_RBP, OFFSET_OF_RBX, OFFSET_OF_RSP, TOP};
pub use frame::{Frame, Rewound, addresses_of_last_call, innermost_slot, top_frame};
pub use guard::{escape_from, guarded, interrupted_at};
pub use risk::{Stopped, at_risk, is_at_risk, refuse, stop, stop_if_due};
use std::ffi::c_void;
pub use x86_64::{
    AFTER, DEPART, DISPATCH, DIVERTED, EXECUTE, GREQUEST_FORTRAN, KEYVAL_PROXY, LEAVE, RECORD,
    RECOVER, WAIT, divert_to,
};
pub use x86_64::{
    Answer, answer_all, call_program, call_user, depart_by, departs, divert, end_wait,
    is_recording, is_rewound, leave_callbacks, leave_user, on_stack_of, rewind, run_user,
    set_handler, set_recording, stay, undivert, wait_mark, will_block, will_return, without_mpi,
};

/// A function of the program that is called by a function of the runtime, on the program's stack.
///
/// # Safety
/// As [`call_program`]; `call` must do what a callback of the program may.
pub unsafe fn call_program_by<T>(call: extern "C" fn(&mut T) -> u64, arguments: &mut T) -> u64 {
    // SAFETY: the caller's promise; the argument is valid until the call returns.
    unsafe {
        call_program(
            call as *const c_void,
            [&raw mut *arguments as u64, 0, 0, 0, 0],
        )
    }
}

type OfSix = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

/// A call with six arguments.
struct Six {
    function: OfSix,
    arguments: [u64; 6],
}

/// Runs on the program's stack.
extern "C" fn call_six(six: &mut Six) -> u64 {
    let [a, b, c, d, e, f] = six.arguments;
    (six.function)(a, b, c, d, e, f)
}

/// The same as [`call_program`] with one argument more.
///
/// # Safety
/// As [`call_program`]; `function` must take (up to) these six arguments.
pub unsafe fn call_program_with_six(function: *const c_void, arguments: [u64; 6]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let function = std::mem::transmute::<*const c_void, OfSix>(function);
        call_program_by(
            call_six,
            &mut Six {
                function,
                arguments,
            },
        )
    }
}

/// A callback that the program has given, a function or a [closure](understudy_abi::CLOSURE): its
/// address, and the last argument.
///
/// # Safety
/// It must be one of the program's.
pub unsafe fn function_of(callback: u64) -> (*const c_void, u64) {
    let block = callback & !(understudy_abi::CLOSURE as u64);
    match block == callback {
        true => (callback as *const c_void, 0),
        // SAFETY: a block in the program's memory begins with the address of the code.
        false => (unsafe { *(block as *const u64) } as *const c_void, block),
    }
}
