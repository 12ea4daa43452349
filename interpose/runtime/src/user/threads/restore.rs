//! The threads of an image: who is not in it ends, who is missing is made.
#![allow(unsafe_code)]

use super::slot::{self, END, FREE, PARKED, Slot};
use super::{Deaf, Saved, THREADS, Thread, raw, vectors};
use crate::user::UserError;
use crate::user::locks::ThreadNumber;
use crate::user::signals::mask;
use std::sync::atomic::Ordering;

/// A thread's signals are held back while it is made.
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
    slot.number.load(Ordering::Relaxed) == thread.number.get()
        && slot.block.load(Ordering::Relaxed) as u64 == thread.block
}

fn end(slot: &Slot) {
    slot.exists.store(1, Ordering::SeqCst);
    slot.order(END);
    while slot.exists.load(Ordering::SeqCst) != 0 {
        // The kernel's wake-up is not a private one.
        let arguments = [slot.exists.as_ptr() as usize, libc::FUTEX_WAIT as usize, 1, 0, 0, 0];
        // SAFETY: futex(2) on a word that lives.
        unsafe { raw::call(libc::SYS_futex, arguments) };
    }
    slot.number.store(0, Ordering::Relaxed);
    slot.state.store(FREE, Ordering::SeqCst);
}

impl Saved {
    /// Before anything is put back, and all stand still: ends threads that are not in the image, and takes the others out of
    /// what ld.so knows of them.
    pub fn clear(&self) -> Result<(), UserError> {
        let threads = THREADS.borrow();
        let Some(threads) = threads.as_ref() else { return Ok(()) };
        let surplus = threads
            .parked()
            .filter(|slot| !self.threads.iter().any(|thread| is_that(slot, thread)));
        surplus.collect::<Vec<_>>().into_iter().for_each(end);
        // SAFETY: all stand still.
        match unsafe { threads.places.replace(&super::lists::Saved::default()) } {
            true => Ok(()),
            false => Err(UserError::Deaf(Deaf::Loader)),
        }
    }

    /// After all has been put back: makes the threads that are missing; all wait to go back. Their numbers then and now.
    pub fn make(&self, uses_tiles: bool) -> Result<Vec<(ThreadNumber, ThreadNumber)>, UserError> {
        let threads = THREADS.borrow();
        let Some(threads) = threads.as_ref() else {
            return Ok(Vec::new());
        };
        // SAFETY: all stand still, and their memory is that of the image.
        if !unsafe { threads.places.replace(&self.lists) } {
            return Err(UserError::Deaf(Deaf::Loader));
        }
        let now = match self.threads[..] {
            [] => Vec::new(),
            _ => vectors::generations().ok_or(UserError::Vectors)?,
        };
        let (mut changed, quiet) = (Vec::new(), Quiet::begin());
        for thread in &self.threads {
            // SAFETY: the thread's memory has been put back, and it stands still or is to be made.
            if !unsafe { vectors::tell(thread.block, thread.generation, &self.libraries, &now) } {
                return Err(UserError::Vectors);
            }
            if let Some(slot) = threads.parked().find(|slot| is_that(slot, thread)) {
                slot.frame.store(thread.frame as usize, Ordering::SeqCst);
                changed.push((thread.number, thread.number));
                continue;
            }
            let slot = threads.slot_for(0).ok_or(UserError::Deaf(Deaf::Many(slot::SLOTS)))?;
            slot.uses_tiles.store(u32::from(uses_tiles), Ordering::Relaxed);
            let number = threads.make(slot, thread)?;
            changed.push((thread.number, number));
        }
        drop(quiet);
        Ok(changed)
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
        let told = thread.block as usize + self.places.number;
        // SAFETY: signals are blocked, the slot is free, and the thread's memory is there.
        let number = unsafe { slot::make_thread(slot, slot.stack(), told, thread.block as usize) };
        if number < 0 {
            return Err(UserError::NoThread(std::io::Error::from_raw_os_error(-number as i32)));
        }
        slot.number.store(number as i32, Ordering::Relaxed);
        while slot.state.load(Ordering::SeqCst) != PARKED {
            raw::wait(&slot.state, slot::SENT, 0);
        }
        let number = ThreadNumber::of(number as i32);
        // Names and processors are no more than advice: another node has others.
        let _ = std::fs::write(format!("/proc/self/task/{}/comm", number.get()), &thread.name);
        if let Some(words) = &thread.processors {
            let length = size_of_val(&words[..]);
            // SAFETY: sched_setaffinity(2) reads that many bytes.
            unsafe { libc::syscall(libc::SYS_sched_setaffinity, number.get(), length, words.as_ptr()) };
        }
        Ok(number)
    }
}
