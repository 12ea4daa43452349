//! What depends on the processor: entering the runtime, leaving it, and calling back into the program.

mod guard;
mod x86_64;

pub use guard::{escape_from, guarded, interrupted_at};
pub use x86_64::{
    ENTRIES, Frame, answer_all, call_user, end_wait, enter_counted, file_effect, fill_dispatch, is_rewound, leave_user,
    rewind, run_user, set_owner, set_recording, top_frame, wait_mark,
};
