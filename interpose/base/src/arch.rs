//! Processor-dependent code, except for the entry (`entry` of the runtime).
//!
//! It reads the program's position, calls back into the program, and resumes it.
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

/// Calls a function of the runtime on the program's stack, which calls the program.
///
/// # Safety
/// As [`call_program`]; `call` must do what a callback of the program may.
pub unsafe fn call_program_by<T>(call: extern "C" fn(&mut T) -> u64, arguments: &mut T) -> u64 {
    // SAFETY: the caller upholds the requirements; the argument is valid until the call returns.
    unsafe {
        call_program(
            call as *const c_void,
            [&raw mut *arguments as u64, 0, 0, 0, 0],
        )
    }
}

type OfSix = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

/// Call with six arguments.
struct Six {
    function: OfSix,
    arguments: [u64; 6],
}

/// Executes the call on the program's stack.
extern "C" fn call_six(six: &mut Six) -> u64 {
    let [a, b, c, d, e, f] = six.arguments;
    (six.function)(a, b, c, d, e, f)
}

/// Calls a function like [`call_program`], with one more argument.
///
/// # Safety
/// As [`call_program`]; `function` must take (up to) these six arguments.
pub unsafe fn call_program_with_six(function: *const c_void, arguments: [u64; 6]) -> u64 {
    // SAFETY: the caller upholds the requirements.
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

/// Returns the address of a program's callback, and the last argument for it.
///
/// The callback is a function or a [closure](understudy_abi::CLOSURE).
///
/// # Safety
/// `callback` must be a callback of the program.
pub unsafe fn function_of(callback: u64) -> (*const c_void, u64) {
    let block = callback & !(understudy_abi::CLOSURE as u64);
    match block == callback {
        true => (callback as *const c_void, 0),
        // SAFETY: a closure is a block in the program's memory that begins with the code's address.
        false => (unsafe { *(block as *const u64) } as *const c_void, block),
    }
}
