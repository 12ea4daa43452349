//! What depends on the processor, but for the entry ([`crate::entry`]): where the program is, calling back into it, letting it go on.

mod guard;
mod x86_64;

pub use guard::{escape_from, guarded, interrupted_at};
pub(crate) use x86_64::{
    AFTER, BASE, DISPATCH, EXECUTE, FRAME_SIZE, OFFSET_OF_RBP, OFFSET_OF_RBX, OFFSET_OF_RSP, RECORD, TOP, WAITED,
};
pub use x86_64::{
    Answer, Frame, Rewound, addresses_of_last_call, answer_all, call_user, end_wait, is_recording, is_rewound,
    leave_callbacks, leave_user, rewind, run_user, set_recording, top_frame, wait_mark,
};
