//! State of the program side in this process.

use super::accelerator::device_state::DeviceState;
use super::advice::LastReading;
use super::children::Children;
use super::files::open_files::Others;
use super::input::Input;
use super::loader::Loaded;
use super::output::ledgers::Ledgers;
use super::process_attributes::Value;
use super::refused::start_state::StartState;
use super::sharing::Mapping;
use super::system_v::kernel_object::Exchanged;
use super::threads::stop::Threads;
use super::timers::kernel_timer::Timers;
use super::undo::undo_state::UndoState;
use crate::cell::{Door, Field, runtime};
use std::cell::Cell;

runtime! {
    pub struct Runtime {
        /// Standard output and error.
        pub(super) ledgers: Field<Ledgers> = Field::new(Ledgers::START),
        pub(super) input: Field<Input> = Field::new(Input::START),
        pub(super) loader: Loaded = Loaded::new(),
        /// Logs of effects on files.
        pub(super) undo: UndoState = UndoState::new(),
        /// Open files.
        pub(super) files: Others = Others::new(),
        pub(super) children: Children = Children::new(),
        pub(super) timers: Timers = Timers::new(),
        /// `None` if threads are refused.
        pub(super) threads: Field<Option<Threads>> = Field::new(None),
        /// Frame at which the thread that restores the program resumes itself.
        ///
        /// Zero if the thread is not in the image and exits.
        pub(super) own_frame: Cell<u64> = Cell::new(0),
        /// Mappings that [`super::sharing::check`] has found.
        pub(super) shared_mappings: Field<Option<Vec<Mapping>>> = Field::new(None),
        pub(super) advice: LastReading = LastReading::new(),
        /// True if a loaded checkpoint contains NUMA policies of ranges.
        pub(super) has_loaded_policies: Cell<bool> = Cell::new(false),
        /// Attributes at the start of the process.
        pub(super) attributes: Field<Vec<Value>> = Field::new(Vec::new()),
        /// System V objects that the last recovery has created anew.
        pub(super) system_v: Field<Exchanged> = Field::new(Vec::new()),
        /// State at the start of the process that must not change.
        pub(super) start: Field<StartState> = Field::new(StartState::NONE),
        pub(super) accelerator: DeviceState = DeviceState::new(),
        /// Values that must be equal in all ranks, with names.
        pub(super) layout: Field<Vec<(String, u64)>> = Field::new(Vec::new()),
    }
}

/// Access for functions that the entry code calls.
pub static DOOR: Door<Runtime> = Door::new();
