//! State of the program side other than its pages.
//!
//! The state comprises thread-local data, signal handlers, files, the floating-point environment,
//! and output.

mod accelerator;
mod advice;
mod checks;
mod children;
mod effects;
mod error;
mod files;
pub mod heap;
mod hook;
mod input;
mod kernel_aio;
mod kernel_calls;
mod keys;
mod layout;
mod loader;
mod lock_words;
mod locks;
mod lowered_limits;
mod memory_policy;
mod open;
mod output;
mod process;
mod process_attributes;
mod process_names;
mod processor_time;
mod program_runtime;
mod refused;
mod sections;
mod sharing;
pub mod signals;
mod state;
mod stopping;
mod system_v;
mod thread_number;
mod thread_status;
pub mod threads;
mod timers;
mod tls;
mod undo;
mod zones;

pub use accelerator::{devices_go_on, may_use_devices, save_devices};
pub use checks::{check, check_kernel_state, shared_mappings};
pub use effects::effect_of_others;
pub use error::UserError;
pub use files::{
    also_written as also_written_file, name_of as name_of_open, note as note_files,
    take_locks as take_file_locks, written as written_files,
};
pub use hook::file_effect;
pub use input::leave as leave_input;
pub use keys::open as open_keys;
pub use layout::{compare_layout, layout, live_stack, remember_start};
pub use loader::{is_loading, is_locked as is_loader_locked, names};
pub use output::{
    attach as attach_output, dead_note, dead_output, discard_library_output, flush as flush_output,
    in_job_memory, inherit as inherit_output, leave, new_ledger, note_cell,
    position as output_position, set_idle, set_stage, show_library_output,
};
pub use process_names::{command_line, host_name, program_name};
pub use program_runtime::{DOOR, Runtime};
pub use refused::must_be_replaced;
pub use sections::{
    begin, begin_section, forget_before, release_output, remove_closed_ledgers, remove_ledger,
};
pub use sharing::Mapping as SharedMapping;
pub use signals::Saved as SavedSignals;
pub use state::{State, capture};
pub use stopping::{stop_children, stop_for_good, stop_threads};
pub use system_v::remove_made as remove_system_v;
pub use threads::{
    allow as allow_threads, are_there as has_threads, go_back as threads_go_back,
    let_go as let_threads_go,
};
pub use undo::{
    Call as FileCall, Range as FileRange, full_name, made as note_made, note as note_effect,
    note_overwriting,
};
pub use undo::{
    end_on_disk as end_files_on_disk, keep_on_disk as keep_files_on_disk, leave_files,
    note_from_start, undo as undo_files, undo_earlier, undo_start, written,
};
pub use zones::zones;
