//! Frames of calls, at the top of the runtime's stack.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// State of the program at a call: the preserved registers, and the call itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Frame {
    pub slot: u64,
    /// rdi, rsi, rdx, rcx, r8, r9: the register arguments.
    pub arguments: [u64; 6],
    /// r15, r14, r13, r12, rbp, rbx.
    pub preserved: [u64; 6],
    /// Stack pointer of the program at its call.
    ///
    /// Points to the return address; the stack arguments follow at higher addresses.
    pub rsp: u64,
}

/// Error of a function that a rewound handler has called.
///
/// The handler must return at once. Its return value is ignored, because the program resumes from
/// the rewound frame.
#[derive(Debug)]
pub struct Rewound;

const STACK_END: usize = RUNTIME_STACK + RUNTIME_STACK_SIZE;
/// Size of a [`Frame`] in bytes.
pub const FRAME_SIZE: usize = size_of::<Frame>();
/// Offset of rbp in a [`Frame`].
pub const OFFSET_OF_RBP: usize = 88;
/// Offset of rbx in a [`Frame`].
pub const OFFSET_OF_RBX: usize = 96;
/// Offset of rsp in a [`Frame`].
pub const OFFSET_OF_RSP: usize = 104;

const _: () = assert!(FRAME_SIZE == 112 && FRAME_SIZE.is_multiple_of(16));
const _: () = assert!(std::mem::offset_of!(Frame, preserved) + 4 * 8 == OFFSET_OF_RBP);
const _: () = assert!(std::mem::offset_of!(Frame, preserved) + 5 * 8 == OFFSET_OF_RBX);
const _: () = assert!(std::mem::offset_of!(Frame, rsp) == OFFSET_OF_RSP);

/// Upper end of the next entry's frame; while a handler runs, of that handler's frame.
///
/// The address is lowered while a handler runs a callback of the program, so that the frames of
/// nested entries lie below those of the handler.
pub static TOP: AtomicUsize = AtomicUsize::new(STACK_END);
/// Value of [`TOP`] for an outermost entry, which is not made from a callback.
///
/// The value is the end of the stack, or a lower address while the program runs inside of
/// [`super::run_user`].
pub static BASE: AtomicUsize = AtomicUsize::new(STACK_END);

/// Returns the frame of the innermost call under way.
#[inline]
pub(super) fn innermost_frame() -> &'static Frame {
    // SAFETY: callers run in a handler, whose call's frame ends at `TOP`.
    unsafe { &*((TOP.load(Ordering::Relaxed) - FRAME_SIZE) as *const Frame) }
}

/// Returns the slot of the innermost call under way.
#[inline]
pub fn innermost_slot() -> u64 {
    innermost_frame().slot
}

/// Returns the frame of the outermost entry; `None` inside a callback.
#[inline]
pub fn top_frame() -> Option<*mut Frame> {
    let base = BASE.load(Ordering::Relaxed);
    (TOP.load(Ordering::Relaxed) == base).then_some((base - FRAME_SIZE) as *mut Frame)
}

/// Returns the addresses of three values in the frame of the last outermost call.
///
/// The values are the slot, the stack pointer and rbp, in this order. The values remain in memory
/// after the call has returned, and other threads may read them.
pub fn addresses_of_last_call() -> [u64; 3] {
    let frame = BASE.load(Ordering::Relaxed) - FRAME_SIZE;
    [frame, frame + OFFSET_OF_RSP, frame + OFFSET_OF_RBP].map(|address| address as u64)
}
