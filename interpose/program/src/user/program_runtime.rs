//! State of the program side in this process.

use super::accelerator::device_state::DeviceState;
use super::advice::SmapsCache;
use super::children::Children;
use super::files::open_files::OpenFileState;
use super::input::Input;
use super::loader::LoaderState;
use super::output::ledgers::Ledgers;
use super::process_attributes::AttributeValue;
use super::refused::start_state::StartState;
use super::sharing::SharedMapping;
use super::system_v::kernel_object::ReplacedObject;
use super::threads::stop::Threads;
use super::timers::kernel_timer::Timers;
use super::undo::undo_state::UndoState;
use crate::runtime_state::{RuntimeAccess, StateCell, runtime};
use std::cell::Cell;

runtime! {
    pub struct Runtime {
        /// Standard output and error.
        pub(super) ledgers: StateCell<Ledgers> = StateCell::new(Ledgers::START),
        pub(super) input: StateCell<Input> = StateCell::new(Input::START),
        pub(super) loader: LoaderState = LoaderState::new(),
        /// Logs of effects on files.
        pub(super) undo: UndoState = UndoState::new(),
        /// Open files.
        pub(super) files: OpenFileState = OpenFileState::new(),
        pub(super) children: Children = Children::new(),
        pub(super) timers: Timers = Timers::new(),
        /// Threads of the program; `None` if threads are refused.
        pub(super) threads: StateCell<Option<Threads>> = StateCell::new(None),
        /// Frame at which the thread that restores the program resumes itself.
        ///
        /// Zero if the thread is not in the image and exits.
        pub(super) restoring_frame: Cell<u64> = Cell::new(0),
        /// Mappings that [`super::sharing::check`] has found.
        pub(super) shared_mappings: StateCell<Option<Vec<SharedMapping>>> = StateCell::new(None),
        pub(super) advice: SmapsCache = SmapsCache::new(),
        /// True if a loaded checkpoint contains NUMA policies of ranges.
        pub(super) has_loaded_policies: Cell<bool> = Cell::new(false),
        /// Attributes at the start of the process.
        pub(super) attributes: StateCell<Vec<AttributeValue>> = StateCell::new(Vec::new()),
        /// System V objects that the last recovery has replaced by new ones.
        pub(super) system_v: StateCell<Vec<ReplacedObject>> = StateCell::new(Vec::new()),
        /// State at the start of the process that must not change.
        pub(super) start: StateCell<StartState> = StateCell::new(StartState::NONE),
        pub(super) accelerator: DeviceState = DeviceState::new(),
        /// Values that must be equal in all ranks, with names.
        pub(super) layout: StateCell<Vec<(String, u64)>> = StateCell::new(Vec::new()),
    }
}

/// Access to the state for functions that the entry code calls.
pub static DOOR: RuntimeAccess<Runtime> = RuntimeAccess::new();
