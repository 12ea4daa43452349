//! Processor-dependent code, except for the entry (module `entry` of the runtime).
//!
//! The code reads the position at which the program has called MPI, calls functions of the program,
//! and resumes the program.
#![allow(unsafe_code)]

mod frame;
mod guard;
pub mod mpi_lock;
pub mod raw_syscall;
mod stoppable_call;
mod x86_64;

pub use frame::{BASE, FRAME_SIZE, OFFSET_OF_RBP, OFFSET_OF_RBX, OFFSET_OF_RSP, TOP};
pub use frame::{Frame, Rewound, addresses_of_last_call, innermost_slot, top_frame};
pub use guard::{escape_from, guarded, interrupted_address};
use std::ffi::c_void;
pub use stoppable_call::{
    StopReason, call_stoppable, is_stoppable, stop, stop_at_mpi_call, stop_if_due,
};
pub use x86_64::{
    AFTER_HANDLER, CALL_STATE, CallState, DEPART, DISPATCH, DIVERTED, EXECUTE, GREQUEST_FORTRAN,
    KEYVAL_PROXY, LEAVE, RECORD, RECOVER, divert_to,
};
pub use x86_64::{
    AnsweredResult, abandon_callbacks, answer_all, call_program, call_user, cancel_departure,
    depart_by, divert, end_wait, is_departing, is_recording, is_rewound, leave_user,
    mark_blocking_wait, mark_short_wait, on_stack_of, rewind, run_user, set_handler, set_recording,
    undivert, wait_kind, without_mpi,
};

/// Calls a function of the runtime on the program's stack.
///
/// Functions of the program must run on the program's stack. Only a function that is called in this
/// way may therefore call them directly.
///
/// # Safety
/// The requirements of [`call_program`] apply; `call` must do only what a callback of the program
/// may do.
pub unsafe fn call_program_through<T>(
    call: extern "C" fn(&mut T) -> u64,
    arguments: &mut T,
) -> u64 {
    // SAFETY: the requirements of `call_program` are also those of this function; the argument is
    // valid until the call returns.
    unsafe {
        call_program(
            call as *const c_void,
            [&raw mut *arguments as u64, 0, 0, 0, 0],
        )
    }
}

type SixArgumentFunction = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

/// Call with six arguments.
struct SixArgumentCall {
    function: SixArgumentFunction,
    arguments: [u64; 6],
}

/// Executes a call on the program's stack.
extern "C" fn call_six(call: &mut SixArgumentCall) -> u64 {
    let [a, b, c, d, e, f] = call.arguments;
    (call.function)(a, b, c, d, e, f)
}

/// Calls a function like [`call_program`], with one more argument.
///
/// # Safety
/// The requirements of [`call_program`] apply; `function` must take (up to) these six arguments.
pub unsafe fn call_program_with_six(function: *const c_void, arguments: [u64; 6]) -> u64 {
    // SAFETY: `function` takes up to six arguments; the requirements of `call_program` are also
    // those of this function.
    unsafe {
        let function = std::mem::transmute::<*const c_void, SixArgumentFunction>(function);
        call_program_through(
            call_six,
            &mut SixArgumentCall {
                function,
                arguments,
            },
        )
    }
}

/// Returns the code address of a callback of the program, and the callback's additional argument.
///
/// The additional argument is the last one. A callback that is a function receives 0; a callback
/// that is a [closure](understudy_abi::CLOSURE) receives the closure's address.
///
/// # Safety
/// `callback` must be a callback of the program.
pub unsafe fn callback_code(callback: u64) -> (*const c_void, u64) {
    let block = callback & !(understudy_abi::CLOSURE as u64);
    match block == callback {
        true => (callback as *const c_void, 0),
        // SAFETY: a closure is a block in the program's memory that begins with the code's address.
        false => (unsafe { *(block as *const u64) } as *const c_void, block),
    }
}
