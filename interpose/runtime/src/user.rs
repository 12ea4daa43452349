//! The user side's state besides its pages: thread-locals, signal handlers, files, the floating-point environment, output.

mod accelerator;
mod advice;
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
mod locks;
mod lowered_limits;
mod memory_policy;
mod open;
mod output;
mod process;
mod process_attributes;
mod process_names;
mod processor_time;
mod refused;
mod sharing;
pub mod signals;
mod system_v;
mod thread_status;
pub mod threads;
mod timers;
mod tls;
mod undo;
mod zones;

use crate::arch::Frame;
use crate::cell::{Door, Field, runtime};
pub use accelerator::{devices_go_on, may_use_devices, save_devices};
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
pub use refused::must_be_replaced;
pub use sharing::Mapping as SharedMapping;
pub use signals::Saved as SavedSignals;
use std::cell::Cell;
pub use system_v::remove_made as remove_system_v;
pub use threads::{
    allow as allow_threads, are_there as has_threads, go_back as threads_go_back,
    let_go as let_threads_go,
};
use understudy_image::layout::Layout;
use understudy_image::runs::PageRun;
use understudy_image::vmas::Zones;
use understudy_numbers::{Epoch, ProcessNumber};
pub use undo::{
    Call as FileCall, Range as FileRange, full_name, made as note_made, note as note_effect,
    note_overwriting,
};
pub use undo::{
    end_on_disk as end_files_on_disk, keep_on_disk as keep_files_on_disk, leave_files,
    note_from_start, undo as undo_files, undo_earlier, undo_start, written,
};
pub use zones::zones;

runtime! {
    pub struct Runtime {
        /// Standard output and error.
        ledgers: Field<output::Ledgers> = Field::new(output::Ledgers::START),
        input: Field<input::Input> = Field::new(input::Input::START),
        loader: loader::Loaded = loader::Loaded::new(),
        /// Logs of effects on files.
        undo: undo::Undo = undo::Undo::new(),
        /// Files that are open.
        files: files::Others = files::Others::new(),
        children: children::Children = children::Children::new(),
        timers: timers::Timers = timers::Timers::new(),
        /// `None`: threads are refused.
        threads: Field<Option<threads::Threads>> = Field::new(None),
        /// Where the thread that leads the way back goes on itself; 0: it is not in the image, and ends.
        own_frame: Cell<u64> = Cell::new(0),
        /// Mappings that [`sharing::check`] has seen.
        shared_mappings: Field<Option<Vec<sharing::Mapping>>> = Field::new(None),
        advice: advice::LastReading = advice::LastReading::new(),
        /// A checkpoint that was loaded has NUMA policies of ranges.
        has_loaded_policies: Cell<bool> = Cell::new(false),
        /// Attributes at the start of the process.
        attributes: Field<Vec<process_attributes::Value>> = Field::new(Vec::new()),
        /// System V objects that the last recovery has made again.
        system_v: Field<system_v::Exchanged> = Field::new(Vec::new()),
        /// State at the start of the process that must not change.
        start: Field<refused::StartState> = Field::new(refused::StartState::NONE),
        accelerator: accelerator::DeviceState = accelerator::DeviceState::new(),
        /// What must be equal in all ranks, by name.
        layout: Field<Vec<(String, u64)>> = Field::new(Vec::new()),
    }
}

/// For what the entry code calls.
pub static DOOR: Door<Runtime> = Door::new();

/// Everything of the user side that is not in its pages.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct State {
    pub layout: Layout,
    libraries: loader::Saved,
    thread_locals: tls::Saved,
    signals: signals::Saved,
    process: process::Saved,
    attributes: process_attributes::Saved,
    processor_time: processor_time::Saved,
    advice: advice::Saved,
    memory_policies: memory_policy::Saved,
    system_v: system_v::Saved,
    kernel_aio: kernel_aio::Saved,
    timers: timers::Saved,
    children: children::Saved,
    input: input::Saved,
    files: files::Saved,
    output: output::Saved,
    thread: locks::ThreadNumber,
    threads: threads::Saved,
    /// Device memory is in the image.
    has_devices: bool,
}

/// The program is in MPI_Init: what it has opened so far is to be the same in all ranks, what it opens from here on is noted.
pub fn begin(rt: &Runtime) {
    layout::remember_libraries(rt);
    loader::begin(&rt.loader);
}

/// Refuses if the program could not be brought back.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    threads::check(rt)?;
    timers::check(rt)?;
    keys::check()?;
    rt.shared_mappings.set(Some(sharing::check()?));
    loader::check(&rt.loader)?;
    files::check(undo::written().highest())
}

/// Refuses if the kernel keeps state for the program that cannot be restored.
///
/// All threads of the program stand still.
pub fn check_kernel_state(rt: &Runtime) -> Result<(), UserError> {
    files::check_kinds(rt)?;
    refused::check(rt)?;
    rt.input.borrow().check()
}

/// Returns the mappings that other processes may have, too: those of the last check.
pub fn shared_mappings(rt: &Runtime) -> Vec<SharedMapping> {
    rt.shared_mappings.take().unwrap_or_else(sharing::mappings)
}

/// Stops all threads for a cut; false: it must be put off.
pub fn stop_threads(rt: &Runtime) -> bool {
    threads::stop(rt) && timers::are_quiet(rt)
}

/// Stops all threads, and ends what the kernel does for the program meanwhile.
pub fn stop_for_good(rt: &Runtime) -> Result<(), UserError> {
    threads::stop_for_good(rt)?;
    kernel_aio::destroy_all()
}

/// Ends children that have been started since the latest cut; none changes files any more.
///
/// All of the program's threads must be stopped.
pub fn stop_children(rt: &Runtime) {
    undo::suspend_children(rt);
    rt.children.stop();
}

/// Collects the state at a cut.
pub fn capture(rt: &Runtime) -> Result<State, UserError> {
    let layout = Layout::read_self(zones())?;
    Ok(State {
        advice: rt.advice.capture(&layout),
        memory_policies: memory_policy::capture(rt.has_loaded_policies.get(), &layout),
        layout,
        libraries: loader::capture(&rt.loader),
        thread_locals: tls::capture(),
        signals: signals::capture(),
        process: process::capture(),
        attributes: process_attributes::capture(&rt.attributes.borrow()),
        processor_time: processor_time::capture(),
        system_v: system_v::capture()?,
        kernel_aio: kernel_aio::capture()?,
        timers: timers::capture(rt)?,
        children: rt.children.capture(),
        input: rt.input.borrow_mut().capture()?,
        files: files::capture(rt),
        output: output::capture(),
        thread: locks::ThreadNumber::main(),
        threads: threads::capture(rt)?,
        has_devices: accelerator::is_saved(rt),
    })
}

/// Begins the section of `epoch`, at its cut.
///
/// What the program does from here on belongs to that section.
pub fn begin_section(rt: &Runtime, epoch: Epoch) {
    undo::begin(rt, epoch);
    rt.input.borrow_mut().begin_section(epoch);
}

/// The job never goes back further than to the cut of this epoch.
pub fn forget_before(rt: &Runtime, epoch: Epoch) {
    undo::forget_before(rt, epoch);
    rt.input.borrow_mut().forget_before(epoch);
}

impl State {
    /// Brings ld.so in line, before mappings and pages are put back.
    pub fn restore_libraries(&self, rt: &Runtime) -> Result<(), UserError> {
        loader::restore(&rt.loader, &self.libraries)
    }

    /// Ends the threads that are not in the image, before mappings and pages are put back. From here on all others stand still.
    pub fn clear_threads(&self, rt: &Runtime) -> Result<(), UserError> {
        stop_for_good(rt)?;
        self.threads.clear(rt)
    }

    /// Puts everything back but the pages, after they have been put back. `own`: this process is the one that was saved.
    pub fn restore(&self, rt: &Runtime, own: bool) -> Result<(), UserError> {
        let is_mains = self.threads.is_mains();
        kernel_aio::restore(&self.kernel_aio)?;
        tls::restore(&self.thread_locals)?;
        // What they signal after the cut may have no handler in the image.
        timers::stop();
        process::stop_timers();
        if own {
            rt.children.restore(&self.children);
        }
        undo::resume_children(rt);
        signals::restore(&self.signals, is_mains);
        files::restore(rt, &self.files, own)?;
        rt.input.borrow_mut().restore(&self.input, own)?;
        system_v::restore(rt, &self.system_v)?;
        output::restore(rt, &self.output, own);
        accelerator::restore(rt, self.has_devices);
        process_attributes::restore(&rt.attributes.borrow(), &self.attributes, is_mains);
        processor_time::restore(&self.processor_time, own);
        rt.advice.restore(&self.advice, &self.layout);
        memory_policy::restore(&rt.has_loaded_policies, &self.memory_policies, &self.layout);
        // A driver tells its process by the number that the kernel has for it.
        if !self.has_devices {
            process::restore_number(&self.process);
        }
        process::restore(&self.process, is_mains)
    }

    /// The threads that may hold locks in the image.
    pub fn owners(&self) -> locks::Owners {
        locks::Owners::new(self.threads.numbers().chain([self.thread]))
    }

    /// Makes the threads that are missing, and this process's threads the owners of the locks that the program holds, and its timers,
    /// after all else. `pages` (sorted) are those with such locks, or more of those that have been loaded; `frame` is the call at the cut.
    pub fn restore_threads(
        &self,
        rt: &Runtime,
        frame: &Frame,
        pages: &[PageRun],
    ) -> Result<(), UserError> {
        let caller = threads::Caller {
            frame,
            mask: self.signals.mask(),
            signal_stack: self.process.signal_stack(),
            floating_point: self.thread_locals.floating_point(),
        };
        let changed = self
            .threads
            .make(rt, &caller, self.thread, self.process.uses_tiles())?;
        locks::pass_on(&changed, &self.layout, pages, &self.thread_locals.ranges());
        timers::restore(rt, &self.timers, &changed)
    }

    /// What is needed when all else has been put back.
    pub fn into_signals(self) -> SavedSignals {
        self.signals
    }

    /// How far down the main thread's stack is in use, if the call of `frame` is the cut.
    pub fn main_stack(&self, frame: &Frame) -> u64 {
        self.threads.main_stack().unwrap_or(frame.rsp)
    }

    /// For a replay that begins here, after the pages have been put back: what does not reach beyond this process.
    pub fn restore_for_replay(&self) -> Result<(), UserError> {
        tls::restore(&self.thread_locals)?;
        signals::restore(&self.signals, true);
        Ok(())
    }

    /// The job has been started again: its output goes on where it was at the cut.
    pub fn continue_output(&self, rt: &Runtime) {
        output::continue_from(rt, &self.output);
    }

    /// The zones that a layout leaves alone.
    pub fn zones() -> &'static Zones {
        zones()
    }
}

/// The rank ends in good order, or the job does.
pub fn release_output(rt: &Runtime) {
    undo::release(rt);
    output::release();
}

/// Removes what a process has left in memory that has died.
pub fn remove_ledger(rt: &Runtime, process: ProcessNumber) {
    undo::discard(process);
    output::remove_ledger(rt, process);
}

/// Removes what processes have left in memory that have ended, among these ranks of the launcher's world.
pub fn remove_closed_ledgers(rt: &Runtime, ranks: std::ops::Range<u32>) {
    undo::discard_abandoned();
    output::remove_closed_ledgers(rt, ranks);
}
