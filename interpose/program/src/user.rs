//! State of the program side other than its pages.
//!
//! [`ProgramState`] is the state at a cut. The modules below save and restore one kind each.

mod accelerator;
mod advice;
mod checks;
mod children;
mod effects;
mod error;
mod excluded_ranges;
mod files;
pub mod heap;
mod hook;
mod input;
mod job_files;
mod kernel_aio;
mod kernel_calls;
mod layout;
mod loader;
mod lock_words;
mod locks;
mod lowered_limits;
mod memory_policy;
mod open_descriptors;
mod output;
mod process;
mod process_attributes;
mod process_names;
mod processor_time;
mod program_runtime;
mod program_state;
mod protection_keys;
mod refused;
mod sections;
mod sharing;
pub mod signals;
mod stopping;
mod system_v;
mod thread_number;
mod thread_status;
pub mod threads;
mod timers;
mod tls;
mod undo;

pub use accelerator::{may_use_devices, restore_devices, save_devices};
pub use checks::{check, check_kernel_state, shared_mappings};
pub use effects::record_unlocked_effect;
pub use error::UserError;
pub use excluded_ranges::zones;
pub use files::{
    add_runtime_file, name_of as name_of_open, record_at_cut as record_files_at_cut,
    take_locks as take_file_locks, written as written_files,
};
pub use hook::file_effect;
pub use input::replace_by_empty_input;
pub use layout::{compare_layout, layout, live_stack, record_start};
pub use loader::{imports_procedure, is_loading, is_locked as is_loader_locked};
pub use output::{
    attach as attach_output, begin_output, discard_library_output, failed_output, failure_record,
    flush as flush_output, in_job_memory, new_ledger, note_cell, position as output_position,
    report_exit, set_idle, set_inherited as set_inherited_output, set_stage, show_library_output,
};
pub use process_names::{command_line, host_name, program_name};
pub use program_runtime::{DOOR, Runtime};
pub use program_state::{ProgramState, capture};
pub use protection_keys::permit_all_keys;
pub use refused::must_be_replaced;
pub use sections::{
    begin_recording, begin_section, forget_before, release_output, remove_closed_ledgers,
    remove_ledger,
};
pub use sharing::SharedMapping;
pub use signals::SignalState;
pub use stopping::{stop_children, stop_for_good, stop_threads};
pub use system_v::remove_created_system_v;
pub use threads::{
    enable as enable_threads, has_threads, resume as resume_threads,
    resume_from_image as resume_threads_from_image,
};
pub use undo::{
    ByteRange, FileCall, full_name, record_call as note_effect,
    record_created as record_created_file, record_range_overwriting as note_overwriting,
};
pub use undo::{
    end_on_disk as end_files_on_disk, keep_on_disk as keep_files_on_disk, record_from_start,
    stop_recording, undo as undo_files, undo_earlier, undo_start, written,
};
