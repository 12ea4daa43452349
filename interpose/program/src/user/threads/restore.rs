//! Restoration of the threads of an image: surplus threads end, missing threads are created.
//!
//! The *restoring thread* is the one that performs the recovery.
#![allow(unsafe_code)]

use super::slot::{self, END, FREE, PARKED, Slot};
use super::{CutCaller, SavedThread, StopError, ThreadsAtCut, dtv_generations, waiting};
use crate::arch::{self, mpi_lock, raw_syscall};
use crate::user::program_runtime::{DOOR, Runtime};
use crate::user::signals::mask;
use crate::user::thread_number::ThreadNumber;
use crate::user::{UserError, system_v, tls};
use std::sync::atomic::Ordering;

/// Guard that blocks all signals while threads are created.
struct BlockedSignals {
    before: u64,
}

impl BlockedSignals {
    fn begin() -> BlockedSignals {
        BlockedSignals {
            before: mask(Some(u64::MAX)),
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        mask(Some(self.before));
    }
}

fn is_slot_of(slot: &Slot, thread: &SavedThread) -> bool {
    let number = slot.number.load(Ordering::Relaxed);
    is_saved_thread(number, slot.block.load(Ordering::Relaxed) as u64, thread)
}

/// True if number and control block belong to the saved thread.
///
/// The main thread has another number in another process.
fn is_saved_thread(number: i32, block: u64, thread: &SavedThread) -> bool {
    block == thread.block && (thread.is_main() || number == thread.number.get())
}

/// True if the saved thread continues as the restoring thread.
///
/// Both have the same control block, which only one thread can have.
fn is_restoring(thread: &SavedThread) -> bool {
    mpi_lock::current_block() as u64 == thread.block
}

/// Makes the restoring thread leave the runtime: it resumes from its frame, or exits.
extern "C" fn leave_runtime() -> ! {
    let rt = DOOR.get();
    mask(Some(u64::MAX));
    // SAFETY: gettid(2) has no arguments and accesses no memory.
    let number = unsafe { libc::gettid() };
    let threads = rt.threads.borrow();
    let found = threads
        .as_ref()
        .and_then(|threads| threads.slot_for(number));
    drop(threads);
    let Some(slot) = found else {
        crate::system_calls::print_message(format_args!(
            "{}",
            StopError::TooManyThreads(slot::MAX_THREADS)
        ));
        crate::system_calls::kill_self()
    };
    let frame = rt.restoring_frame.get();
    slot.frame.store(frame as usize, Ordering::Relaxed);
    slot.block
        .store(mpi_lock::current_block(), Ordering::Relaxed);
    slot.exists.store(u32::from(frame == 0), Ordering::Relaxed);
    // SAFETY: signals are blocked, and nothing is borrowed.
    unsafe { slot::leave_by(slot, slot.stack()) }
}

/// Ends a parked thread, and waits until the kernel has removed it.
fn end_thread(slot: &Slot) {
    slot.exists.store(1, Ordering::SeqCst);
    slot.send_command(END);
    while slot.exists.load(Ordering::SeqCst) != 0 {
        // The kernel's wake-up is not process-private (FUTEX_PRIVATE_FLAG).
        let arguments = [
            slot.exists.as_ptr() as usize,
            libc::FUTEX_WAIT as usize,
            1,
            0,
            0,
            0,
        ];
        // SAFETY: futex(2) on a word that lives as long as the process.
        unsafe { raw_syscall::syscall(libc::SYS_futex, arguments) };
    }
    slot.number.store(0, Ordering::Relaxed);
    slot.state.store(FREE, Ordering::SeqCst);
}

impl ThreadsAtCut {
    /// Ends the threads that are not in the image.
    ///
    /// Also removes all other threads of the program from ld.so's lists. Called before any state
    /// is restored, while all threads are stopped.
    pub fn clear(&self, rt: &Runtime) -> Result<(), UserError> {
        let threads = rt.threads.borrow();
        let Some(threads) = threads.as_ref() else {
            return Ok(());
        };
        let is_surplus = |slot: &&Slot| {
            let is_main = slot.block.load(Ordering::Relaxed) as u64 == tls::control_block();
            let mut saved = self.threads.iter().chain(&self.caller);
            !is_main && !saved.any(|thread| is_slot_of(slot, thread))
        };
        let surplus: Vec<_> = threads.parked().filter(is_surplus).collect();
        surplus.into_iter().for_each(end_thread);
        if mpi_lock::is_other_thread() {
            // SAFETY: the control block is that of this thread, whose area may be unmapped during
            // the load.
            unsafe { slot::unregister_rseq(mpi_lock::current_block()) };
        }
        // SAFETY: all threads are stopped.
        match unsafe {
            threads
                .list_offsets
                .replace(&super::stack_lists::StackLists::default())
        } {
            true => Ok(()),
            false => Err(UserError::ThreadsNotStopped(StopError::Loader)),
        }
    }

    /// Creates the missing threads, and returns the saved and the new numbers of all threads.
    ///
    /// Called after all other state is restored. The threads wait for the command to resume.
    pub fn create_missing(
        &self,
        rt: &Runtime,
        caller: &CutCaller<'_>,
        main: ThreadNumber,
        uses_tiles: bool,
    ) -> Result<Vec<(ThreadNumber, ThreadNumber)>, UserError> {
        if self.is_multiple {
            mpi_lock::allow_concurrent_calls();
        }
        if !self.threads.is_empty() {
            mpi_lock::record_other_threads();
        }
        if self.is_shared && !mpi_lock::is_shared() {
            super::publish_number_offset();
            mpi_lock::share();
        }
        let mut changed = vec![(main, ThreadNumber::main())];
        let threads = rt.threads.borrow();
        let Some(threads) = threads.as_ref() else {
            return Ok(changed);
        };
        // SAFETY: all threads are stopped, and their memory is that of the image.
        if !unsafe { threads.list_offsets.replace(&self.lists) } {
            return Err(UserError::ThreadsNotStopped(StopError::Loader));
        }
        let now = match self.threads[..] {
            [] => Vec::new(),
            _ => dtv_generations::generations().ok_or(UserError::ThreadDataUnknown)?,
        };
        let all = self.resuming_threads(rt, caller, main)?;
        let blocked_signals = BlockedSignals::begin();
        for thread in &all {
            let [block, saved] = [thread.block, thread.generation];
            let has_generation = thread.is_main()
                // SAFETY: the thread's memory is restored, and the thread is stopped or not created
                // yet.
                || unsafe { dtv_generations::set_generation(block, saved, &self.libraries, &now) };
            if !has_generation {
                return Err(UserError::ThreadDataUnknown);
            }
            let number = if is_restoring(thread) {
                rt.restoring_frame.set(thread.frame);
                threads.list_offsets.write_number(thread.block)
            } else if let Some(slot) = threads.parked().find(|slot| is_slot_of(slot, thread)) {
                slot.frame.store(thread.frame as usize, Ordering::SeqCst);
                ThreadNumber::new(slot.number.load(Ordering::Relaxed))
            } else {
                let slot = threads.slot_for(0).ok_or(UserError::ThreadsNotStopped(
                    StopError::TooManyThreads(slot::MAX_THREADS),
                ))?;
                slot.uses_tiles
                    .store(u32::from(uses_tiles), Ordering::Relaxed);
                let number = threads.create(slot, thread)?;
                // SAFETY: the thread is parked, and its memory is that of the image.
                unsafe { waiting::renumber(thread.frame as usize, thread.number, number) };
                number
            };
            // SAFETY: the frame of a thread that is parked or is the restoring thread; its memory
            // is that of the image.
            unsafe { system_v::redirect(rt, thread.frame as usize) };
            changed.push((thread.number, number));
        }
        drop(blocked_signals);
        Ok(changed)
    }

    /// True if the main thread made the cut and is the restoring thread.
    ///
    /// The main thread then executes the MPI call itself. In all other cases the main thread
    /// resumes from a frame like all other threads.
    pub fn is_restored_by_main(&self) -> bool {
        self.caller.is_none() && !mpi_lock::is_other_thread()
    }

    /// Returns all threads that resume from a frame.
    ///
    /// Includes the thread that made the cut, except in the case of
    /// [`is_restored_by_main`](Self::is_restored_by_main). Also determines how the restoring thread
    /// leaves the runtime.
    fn resuming_threads(
        &self,
        rt: &Runtime,
        caller: &CutCaller<'_>,
        main: ThreadNumber,
    ) -> Result<Vec<SavedThread>, UserError> {
        let mut all = self.threads.clone();
        if self.is_restored_by_main() {
            arch::cancel_departure();
            return Ok(all);
        }
        rt.restoring_frame.set(0);
        arch::depart_by(leave_runtime);
        let thread = self
            .caller
            .clone()
            .unwrap_or_else(|| SavedThread::main(main));
        // SAFETY: the memory is that of the image.
        let frame = unsafe { caller.write() }.ok_or(UserError::ThreadDataUnknown)?;
        all.push(SavedThread { frame, ..thread });
        Ok(all)
    }
}

impl SavedThread {
    /// Returns the main thread without a frame; it is never created.
    fn main(number: ThreadNumber) -> SavedThread {
        SavedThread {
            number,
            block: tls::control_block(),
            gs: 0,
            frame: 0,
            generation: 0,
            robust: [0; 2],
            name: String::new(),
            processors: None,
        }
    }
}

impl super::Threads {
    /// Creates a thread that waits in the slot for a command.
    fn create(&self, slot: &Slot, thread: &SavedThread) -> Result<ThreadNumber, UserError> {
        slot.block.store(thread.block as usize, Ordering::Relaxed);
        slot.gs.store(thread.gs as usize, Ordering::Relaxed);
        slot.frame.store(thread.frame as usize, Ordering::Relaxed);
        for (target, value) in slot.robust.iter().zip(thread.robust) {
            target.store(value as usize, Ordering::Relaxed);
        }
        self.occupy(slot);
        let block = thread.block as usize;
        let words =
            [self.list_offsets.number, self.list_offsets.exit_word].map(|offset| block + offset);
        // SAFETY: signals are blocked, the slot is free, and the thread's memory is restored.
        let number = unsafe { slot::create_thread(slot, slot.stack(), words[0], words[1], block) };
        if number < 0 {
            return Err(UserError::NoThread(std::io::Error::from_raw_os_error(
                -number as i32,
            )));
        }
        slot.number.store(number as i32, Ordering::Relaxed);
        while slot.state.load(Ordering::SeqCst) != PARKED {
            raw_syscall::futex_wait(&slot.state, slot::SENT, 0);
        }
        let number = ThreadNumber::new(number as i32);
        // Errors are ignored: on another node there are other processors.
        let _ = std::fs::write(
            format!("/proc/self/task/{}/comm", number.get()),
            &thread.name,
        );
        if let Some(words) = &thread.processors {
            let length = size_of_val(&words[..]);
            // SAFETY: sched_setaffinity(2) reads this number of bytes.
            unsafe {
                libc::syscall(
                    libc::SYS_sched_setaffinity,
                    number.get(),
                    length,
                    words.as_ptr(),
                )
            };
        }
        Ok(number)
    }
}
