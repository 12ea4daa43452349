//! State of the program side besides its pages: captured at a cut, restored at a recovery.

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
use understudy_image::runs::PageRun;
use understudy_image::vmas::Zones;

/// State of the program side at a cut that is not in its pages.
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
    thread: ThreadNumber,
    threads: threads::Saved,
    /// True if device memory is in the image.
    has_devices: bool,
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
        thread: ThreadNumber::main(),
        threads: threads::capture(rt)?,
        has_devices: accelerator::is_saved(rt),
    })
}

impl State {
    /// Restores the libraries that ld.so has loaded, before mappings and pages are put back.
    pub fn restore_libraries(&self, rt: &Runtime) -> Result<(), UserError> {
        loader::restore(&rt.loader, &self.libraries)
    }

    /// Ends the threads that are not in the image, before mappings and pages are put back.
    ///
    /// All other threads stand still from here on.
    pub fn clear_threads(&self, rt: &Runtime) -> Result<(), UserError> {
        stop_for_good(rt)?;
        self.threads.clear(rt)
    }

    /// Restores the state, after the pages.
    ///
    /// `own`: this process is the one that was saved.
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

    /// Returns the threads that may hold locks in the image.
    pub fn owners(&self) -> locks::Owners {
        locks::Owners::new(self.threads.numbers().chain([self.thread]))
    }

    /// Makes missing threads, makes this process's threads the owners of locks, and restores
    /// timers.
    ///
    /// This comes after all else. `pages` (sorted) are those with locks that the program holds, or
    /// more of those that have been loaded; `frame` is the call at the cut.
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

    /// Returns the signals, which are needed when all else has been restored.
    pub fn into_signals(self) -> signals::Saved {
        self.signals
    }

    /// Returns the lowest address in use of the main thread's stack.
    ///
    /// `frame` is the call at the cut.
    pub fn main_stack(&self, frame: &Frame) -> u64 {
        self.threads.main_stack().unwrap_or(frame.rsp)
    }

    /// Restores what does not reach beyond this process, for a replay that begins here.
    ///
    /// The pages have been put back.
    pub fn restore_for_replay(&self) -> Result<(), UserError> {
        tls::restore(&self.thread_locals)?;
        signals::restore(&self.signals, true);
        Ok(())
    }

    /// Continues the output of a job that was restarted where it was at the cut.
    pub fn continue_output(&self, rt: &Runtime) {
        output::continue_from(rt, &self.output);
    }

    /// Returns the ranges that a layout leaves alone.
    pub fn zones() -> &'static Zones {
        zones()
    }
}
