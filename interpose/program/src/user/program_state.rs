//! State of the program side other than its pages.
//!
//! The state is captured at a cut and restored in a recovery.

use super::program_runtime::Runtime;
use super::stopping::stop_for_good;
use super::thread_number::ThreadNumber;
use super::{
    UserError, accelerator, advice, children, files, input, kernel_aio, loader, locks,
    memory_policy, output, process, process_attributes, processor_time, signals, system_v, threads,
    timers, tls, undo, zones,
};
use crate::arch::Frame;
use understudy_image::layout::Layout;
use understudy_image::pages::PageRun;
use understudy_image::vmas::ExcludedRanges;
use understudy_numbers::Worker;

/// State of the program side at a cut that is not in its pages.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct ProgramState {
    pub layout: Layout,
    libraries: loader::LoaderAtCut,
    thread_locals: tls::ThreadLocalsAtCut,
    signals: signals::SignalState,
    process: process::ProcessSettings,
    attributes: process_attributes::ChangedAttributes,
    processor_time: processor_time::ProcessorTime,
    advice: advice::MappingAttributes,
    memory_policies: memory_policy::RangePolicies,
    system_v: system_v::SystemVObjectsAtCut,
    kernel_aio: kernel_aio::AioContextsAtCut,
    timers: timers::TimersAtCut,
    children: children::ChildrenAtCut,
    input: input::InputAtCut,
    files: files::OpenFilesAtCut,
    output: output::StreamPositions,
    thread: ThreadNumber,
    threads: threads::ThreadsAtCut,
    /// True if device memory is in the image.
    has_devices: bool,
}

/// Collects the state at a cut.
pub fn capture(rt: &Runtime) -> Result<ProgramState, UserError> {
    let layout = Layout::read_self(zones())?;
    Ok(ProgramState {
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
        thread: ThreadNumber::main(),
        threads: threads::capture(rt)?,
        has_devices: accelerator::is_saved(rt),
    })
}

impl ProgramState {
    /// Restores ld.so's libraries; called before mappings and pages are restored.
    pub fn restore_libraries(&self, rt: &Runtime) -> Result<(), UserError> {
        loader::restore(&rt.loader, &self.libraries)
    }

    /// Ends the threads that are not in the image.
    ///
    /// Stops all other threads. Called before mappings and pages are restored.
    pub fn clear_threads(&self, rt: &Runtime) -> Result<(), UserError> {
        stop_for_good(rt)?;
        self.threads.clear(rt)
    }

    /// Restores the state, after the pages.
    ///
    /// `is_survivor` is true in a process that rolls back: this process was saved, or has become a
    /// replacement since the cut.
    pub fn restore(&self, rt: &Runtime, is_survivor: bool) -> Result<(), UserError> {
        let is_mains = self.threads.is_restored_by_main();
        kernel_aio::restore(&self.kernel_aio)?;
        tls::restore(&self.thread_locals)?;
        // Signals of timers that the program set after the cut may have no handler in the image.
        timers::stop();
        process::stop_timers();
        if is_survivor {
            rt.children.restore(&self.children);
        }
        undo::resume_children(rt);
        signals::restore(&self.signals, is_mains);
        files::restore(rt, &self.files, is_survivor)?;
        rt.input.borrow_mut().restore(&self.input, is_survivor)?;
        system_v::restore(rt, &self.system_v)?;
        output::restore(rt, &self.output, is_survivor);
        accelerator::restore(rt, self.has_devices);
        process_attributes::restore(&rt.attributes.borrow(), &self.attributes, is_mains);
        processor_time::restore(&self.processor_time, is_survivor);
        rt.advice.restore(&self.advice, &self.layout);
        memory_policy::restore(&rt.has_loaded_policies, &self.memory_policies, &self.layout);
        // A driver identifies its process by the kernel's process number, so the number that the
        // program sees must not change.
        if !self.has_devices {
            process::restore_number(&self.process);
        }
        process::restore(&self.process, is_mains)
    }

    /// Returns the threads that may hold locks in the image.
    pub fn owners(&self) -> locks::LockOwners {
        locks::LockOwners::new(self.threads.numbers().chain([self.thread]))
    }

    /// Creates missing threads, makes this process's threads the owners of locks, restores timers.
    ///
    /// Called after all other state is restored. `pages` (sorted) must include all loaded pages
    /// with locks that the program holds. `frame` is the frame of the MPI call that made the cut.
    pub fn restore_threads(
        &self,
        rt: &Runtime,
        frame: &Frame,
        pages: &[PageRun],
    ) -> Result<(), UserError> {
        let caller = threads::CutCaller {
            frame,
            mask: self.signals.mask(),
            signal_stack: self.process.signal_stack(),
            floating_point: self.thread_locals.floating_point(),
        };
        let changed =
            self.threads
                .create_missing(rt, &caller, self.thread, self.process.uses_tiles())?;
        locks::renumber_owners(&changed, &self.layout, pages, &self.thread_locals.ranges());
        timers::restore(rt, &self.timers, &changed)
    }

    /// Returns the signals, which are resent after all other state is restored.
    pub fn into_signals(self) -> signals::SignalState {
        self.signals
    }

    /// Returns the lowest address in use of the main thread's stack.
    ///
    /// `frame` is the frame of the MPI call that made the cut.
    pub fn main_stack(&self, frame: &Frame) -> u64 {
        self.threads.main_stack().unwrap_or(frame.rsp)
    }

    /// Restores the state of this process only, for a replay that starts at this cut.
    ///
    /// The pages have already been restored.
    pub fn restore_for_replay(&self) -> Result<(), UserError> {
        tls::restore(&self.thread_locals)?;
        signals::restore(&self.signals, true);
        Ok(())
    }

    /// Continues the output of a restarted job at its positions at the cut.
    ///
    /// # Errors
    /// Fails with a message if the earlier job had another file for its output.
    pub fn continue_output(&self, rt: &Runtime, worker: Worker) -> Result<(), String> {
        output::continue_from(rt, &self.output, worker)
    }

    /// Returns the ranges that do not belong to a layout.
    pub fn zones() -> &'static ExcludedRanges {
        zones()
    }
}
