//! Restoration of the threads of an image: surplus threads end, missing threads are created.
//!
//! The *restoring thread* is the one that performs the recovery.
#![allow(unsafe_code)]

use super::slot::{self, END, FREE, PARKED, Slot};
use super::{Caller, Deaf, Saved, Thread, vectors, waiting};
use crate::arch::{self, raw, turn};
use crate::user::program_runtime::{DOOR, Runtime};
use crate::user::signals::mask;
use crate::user::thread_number::ThreadNumber;
use crate::user::{UserError, system_v, tls};
use std::sync::atomic::Ordering;

/// Guard that blocks all signals while threads are created.
struct Quiet {
    before: u64,
}

impl Quiet {
    fn begin() -> Quiet {
        Quiet {
            before: mask(Some(u64::MAX)),
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        mask(Some(self.before));
    }
}

fn is_that(slot: &Slot, thread: &Thread) -> bool {
    let number = slot.number.load(Ordering::Relaxed);
    is_same(number, slot.block.load(Ordering::Relaxed) as u64, thread)
}

/// True if number and control block belong to the saved thread.
///
/// The main thread has another number in another process.
fn is_same(number: i32, block: u64, thread: &Thread) -> bool {
    block == thread.block && (thread.is_main() || number == thread.number.get())
}

/// True if this thread is the restoring thread, or takes the place of it.
///
/// Only one thread can have this control block.
fn is_own(thread: &Thread) -> bool {
    turn::block() as u64 == thread.block
}

/// Makes the restoring thread leave the runtime.
extern "C" fn depart() -> ! {
    let rt = DOOR.get();
    mask(Some(u64::MAX));
    // SAFETY: gettid(2).
    let number = unsafe { libc::gettid() };
    let threads = rt.threads.borrow();
    let found = threads
        .as_ref()
        .and_then(|threads| threads.slot_for(number));
    drop(threads);
    let Some(slot) = found else {
        crate::sys::say(format_args!("{}", Deaf::Many(slot::SLOTS)));
        crate::sys::kill_self()
    };
    let frame = rt.own_frame.get();
    slot.frame.store(frame as usize, Ordering::Relaxed);
    slot.block.store(turn::block(), Ordering::Relaxed);
    slot.exists.store(u32::from(frame == 0), Ordering::Relaxed);
    // SAFETY: signals are blocked, and nothing is borrowed.
    unsafe { slot::leave_by(slot, slot.stack()) }
}

fn end(slot: &Slot) {
    slot.exists.store(1, Ordering::SeqCst);
    slot.order(END);
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
        unsafe { raw::call(libc::SYS_futex, arguments) };
    }
    slot.number.store(0, Ordering::Relaxed);
    slot.state.store(FREE, Ordering::SeqCst);
}

impl Saved {
    /// Ends the threads that are not in the image.
    ///
    /// Also removes the other threads from ld.so's lists. Called before any state is restored,
    /// while all threads are stopped.
    pub fn clear(&self, rt: &Runtime) -> Result<(), UserError> {
        let threads = rt.threads.borrow();
        let Some(threads) = threads.as_ref() else {
            return Ok(());
        };
        let is_surplus = |slot: &&Slot| {
            let is_main = slot.block.load(Ordering::Relaxed) as u64 == tls::control_block();
            let mut saved = self.threads.iter().chain(&self.caller);
            !is_main && !saved.any(|thread| is_that(slot, thread))
        };
        let surplus: Vec<_> = threads.parked().filter(is_surplus).collect();
        surplus.into_iter().for_each(end);
        if turn::is_foreign() {
            // SAFETY: this thread's area, which may be unmapped during the load.
            unsafe { slot::unregister(turn::block()) };
        }
        // SAFETY: all threads are stopped.
        match unsafe { threads.places.replace(&super::lists::Saved::default()) } {
            true => Ok(()),
            false => Err(UserError::Deaf(Deaf::Loader)),
        }
    }

    /// Creates the missing threads, and returns the saved and the new numbers of all threads.
    ///
    /// Called after all other state is restored. The threads wait for the command to resume.
    pub fn make(
        &self,
        rt: &Runtime,
        caller: &Caller<'_>,
        main: ThreadNumber,
        uses_tiles: bool,
    ) -> Result<Vec<(ThreadNumber, ThreadNumber)>, UserError> {
        if self.is_multiple {
            turn::be_multiple();
        }
        if !self.threads.is_empty() {
            turn::has_others();
        }
        if self.is_shared && !turn::is_shared() {
            super::tell_numbers();
            turn::share();
        }
        let mut changed = vec![(main, ThreadNumber::main())];
        let threads = rt.threads.borrow();
        let Some(threads) = threads.as_ref() else {
            return Ok(changed);
        };
        // SAFETY: all threads are stopped, and their memory is that of the image.
        if !unsafe { threads.places.replace(&self.lists) } {
            return Err(UserError::Deaf(Deaf::Loader));
        }
        let now = match self.threads[..] {
            [] => Vec::new(),
            _ => vectors::generations().ok_or(UserError::Vectors)?,
        };
        let all = self.all(rt, caller, main)?;
        let quiet = Quiet::begin();
        for thread in &all {
            let [block, known] = [thread.block, thread.generation];
            let is_told = thread.is_main()
                // SAFETY: the thread's memory is restored, and the thread is stopped or not created
                // yet.
                || unsafe { vectors::tell(block, known, &self.libraries, &now) };
            if !is_told {
                return Err(UserError::Vectors);
            }
            let number = if is_own(thread) {
                rt.own_frame.set(thread.frame);
                threads.places.tell_number(thread.block)
            } else if let Some(slot) = threads.parked().find(|slot| is_that(slot, thread)) {
                slot.frame.store(thread.frame as usize, Ordering::SeqCst);
                ThreadNumber::of(slot.number.load(Ordering::Relaxed))
            } else {
                let slot = threads
                    .slot_for(0)
                    .ok_or(UserError::Deaf(Deaf::Many(slot::SLOTS)))?;
                slot.uses_tiles
                    .store(u32::from(uses_tiles), Ordering::Relaxed);
                let number = threads.make(slot, thread)?;
                // SAFETY: the thread is parked, and its memory is that of the image.
                unsafe { waiting::renumber(thread.frame as usize, thread.number, number) };
                number
            };
            // SAFETY: the frame of a parked thread, whose memory is that of the image.
            unsafe { system_v::redirect(rt, thread.frame as usize) };
            changed.push((thread.number, number));
        }
        drop(quiet);
        Ok(changed)
    }

    /// True if the main thread made the cut and is the restoring thread.
    ///
    /// In this case it executes the call itself. Otherwise it resumes from a frame like all other
    /// threads.
    pub fn is_mains(&self) -> bool {
        self.caller.is_none() && !turn::is_foreign()
    }

    /// Returns all threads that resume from a frame, including the restoring thread.
    fn all(
        &self,
        rt: &Runtime,
        caller: &Caller<'_>,
        main: ThreadNumber,
    ) -> Result<Vec<Thread>, UserError> {
        let mut all = self.threads.clone();
        if self.is_mains() {
            arch::stay();
            return Ok(all);
        }
        rt.own_frame.set(0);
        arch::depart_by(depart);
        let thread = self.caller.clone().unwrap_or_else(|| Thread::main(main));
        // SAFETY: the memory is that of the image.
        let frame = unsafe { caller.write() }.ok_or(UserError::Vectors)?;
        all.push(Thread { frame, ..thread });
        Ok(all)
    }
}

impl Thread {
    /// The main thread without a frame; it is never created.
    fn main(number: ThreadNumber) -> Thread {
        Thread {
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
    fn make(&self, slot: &Slot, thread: &Thread) -> Result<ThreadNumber, UserError> {
        slot.block.store(thread.block as usize, Ordering::Relaxed);
        slot.gs.store(thread.gs as usize, Ordering::Relaxed);
        slot.frame.store(thread.frame as usize, Ordering::Relaxed);
        for (place, value) in slot.robust.iter().zip(thread.robust) {
            place.store(value as usize, Ordering::Relaxed);
        }
        self.occupy(slot);
        let block = thread.block as usize;
        let words = [self.places.number, self.places.exit_word].map(|offset| block + offset);
        // SAFETY: signals are blocked, the slot is free, and the thread's memory is restored.
        let number = unsafe { slot::make_thread(slot, slot.stack(), words[0], words[1], block) };
        if number < 0 {
            return Err(UserError::NoThread(std::io::Error::from_raw_os_error(
                -number as i32,
            )));
        }
        slot.number.store(number as i32, Ordering::Relaxed);
        while slot.state.load(Ordering::SeqCst) != PARKED {
            raw::wait(&slot.state, slot::SENT, 0);
        }
        let number = ThreadNumber::of(number as i32);
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
