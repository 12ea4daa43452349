//! Threads of the program other than the one that has called MPI.
//!
//! ```text
//!   cut        stop ── all threads are stopped by a signal, or the cut is postponed
//!              save ── the kernel's state of each; the rest is in the image, with the signal frame
//!              resume
//!   recovery   stop ── before files or memory are restored
//!              end threads that are not in the image, restore lists and pages, create missing ones
//!              resume ── from the frames in the image
//! ```
//!
//! Threads of the runtime side have their stacks in the reserved range, and are never stopped.
#![allow(unsafe_code)]

mod call_number;
mod dtv_generations;
mod restore;
mod signal_frame;
mod slot;
mod stack_lists;
pub(super) mod stop;
pub(super) mod stop_error;
mod waiting;

use super::UserError;
use super::thread_number::ThreadNumber;
use super::tls;
use crate::arch::{self, Frame, mpi_lock, raw_syscall};
use crate::user::program_runtime::Runtime;
use crate::{process_info, system_calls, work_flags};
pub use signal_frame::CutCaller;
use stack_lists::ListOffsets;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
pub use stop::Threads;
pub use stop_error::StopError;
pub(super) use waiting::pending_call;

/// Publishes the offset of the kernel's thread number in `struct pthread`, for the MPI lock.
pub fn publish_number_offset() {
    if let Some(offset) = system_calls::thread_db_offset(c"_thread_db_pthread_tid") {
        mpi_lock::set_thread_number_offset(offset as usize);
    }
}

/// Saved state of a thread.
///
/// The thread's registers, signal mask and signal stack are in the frame, which is in the image.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct SavedThread {
    number: ThreadNumber,
    /// Address of `struct pthread`, the value of the fs register.
    block: u64,
    gs: u64,
    /// Address of the signal frame from which the thread resumes.
    frame: u64,
    /// Generation of the thread's vector of thread-local blocks ([`dtv_generations`]).
    generation: u64,
    /// List of the thread's robust mutexes, and the length of its head.
    robust: [u64; 2],
    name: String,
    /// Processors that the thread may run on, if they differ from the main thread's.
    processors: Option<Vec<u64>>,
}

/// Saved threads, and ld.so's lists of their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ThreadsAtCut {
    threads: Vec<SavedThread>,
    lists: stack_lists::StackLists,
    libraries: Vec<dtv_generations::Generation>,
    /// Thread that made the cut, without a frame; `None` for the main thread.
    ///
    /// The main thread is one of `threads` if the caller is another thread.
    caller: Option<SavedThread>,
    /// True if any thread may call MPI.
    is_shared: bool,
    /// True if several threads may call MPI at the same time.
    is_multiple: bool,
}

impl ThreadsAtCut {
    /// Returns the numbers of all threads, possibly without the main thread's.
    pub fn numbers(&self) -> impl Iterator<Item = ThreadNumber> {
        self.threads
            .iter()
            .chain(&self.caller)
            .map(|thread| thread.number)
    }

    /// Returns the lowest used address of the main thread's stack, if that thread was stopped.
    pub fn main_stack(&self) -> Option<u64> {
        self.threads
            .iter()
            .find(|thread| thread.is_main())
            .map(|thread| thread.frame)
    }
}

impl SavedThread {
    fn is_main(&self) -> bool {
        self.block == tls::control_block()
    }
}

/// Time limit of a cut for stopping threads.
const CUT_TIMEOUT: Duration = Duration::from_millis(50);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Enables stopping of threads if the format of this C library is known.
///
/// Called before the program runs.
pub fn enable(rt: &Runtime) {
    rt.threads.set(ListOffsets::find().map(Threads::new));
}

/// Refuses a program that has created a thread which cannot be restored.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    let created = process_info::created_threads();
    if created == 0 || rt.threads.borrow().is_some() {
        Ok(())
    } else {
        Err(UserError::Threads(created))
    }
}

/// Stops all threads for a cut; false if the cut must be postponed.
pub fn stop(rt: &Runtime) -> bool {
    let mut threads = rt.threads.borrow_mut();
    threads
        .as_mut()
        .is_none_or(|threads| threads.try_to_stop(CUT_TIMEOUT))
}

/// Stops all threads for a recovery, which cannot be postponed.
pub fn stop_for_good(rt: &Runtime) -> Result<(), UserError> {
    let mut threads = rt.threads.borrow_mut();
    let Some(threads) = threads.as_mut() else {
        return Ok(());
    };
    let begin = Instant::now();
    loop {
        match threads.stop(RECOVERY_TIMEOUT) {
            Ok(()) => return Ok(()),
            // The thread leaves ld.so after it has resumed.
            Err(StopError::Loader) if begin.elapsed() < RECOVERY_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL)
            }
            Err(error) => return Err(UserError::ThreadsNotStopped(error)),
        }
    }
}

/// Resumes all threads at the point where they were stopped.
pub fn resume(rt: &Runtime) {
    if let Some(threads) = rt.threads.borrow_mut().as_mut() {
        threads.release(slot::RESUME);
    }
}

/// Resumes all threads from the loaded image.
///
/// `frame` is the frame of the MPI call that made the cut.
pub fn resume_from_image(rt: &Runtime, frame: &Frame) {
    if arch::is_departing() {
        mpi_lock::acquire_for_main();
    } else {
        mpi_lock::resume_main(frame);
    }
    if let Some(threads) = rt.threads.borrow_mut().as_mut() {
        threads.release(slot::RESUME_FROM_IMAGE);
    }
}

/// True if a thread of the program has a number for which `has` is true.
///
/// Also true if the threads cannot be listed now. False if the program's threads cannot be
/// identified at all.
fn has_thread_where(rt: &Runtime, has: impl Fn(i32) -> bool) -> bool {
    let threads = rt.threads.borrow();
    let Some(threads) = threads.as_ref() else {
        return false;
    };
    // If the lists are locked at present, the program has several threads.
    let listed = threads.list_offsets.threads();
    listed.is_none_or(|listed| {
        listed
            .iter()
            .any(|thread| !thread.is_runtimes() && has(thread.number))
    })
}

/// True if the program has, besides the calling thread, threads that could be stopped.
///
/// Also true if the threads cannot be listed now.
pub fn has_threads(rt: &Runtime) -> bool {
    has_thread_where(rt, |number| number > 0)
}

/// Returns a thread that clone(2) has created directly, and that ld.so does not list.
///
/// While a thread starts or ends, for a moment only the kernel lists the thread.
pub fn unknown_thread(rt: &Runtime) -> Option<i32> {
    const ATTEMPTS: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(2);
    let threads = rt.threads.borrow();
    let list_offsets = &threads.as_ref()?.list_offsets;
    for _ in 0..ATTEMPTS {
        let listed = list_offsets.threads()?;
        let numbers: Vec<i32> = listed.iter().map(|thread| thread.number).collect();
        // Besides the listed threads, the directory's link count includes `.`, `..` (proc(5)) and
        // the calling thread, which is not listed.
        let alive = numbers.iter().filter(|&&number| number > 0).count() as u64;
        if std::fs::metadata("/proc/self/task").is_ok_and(|metadata| metadata.nlink() <= alive + 3)
        {
            return None;
        }
        let unknown = stop::tasks()
            .into_iter()
            .find(|number| !numbers.contains(number))?;
        std::thread::sleep(PAUSE);
        if !stop::exists(unknown) {
            continue;
        }
        let listed = list_offsets.threads()?;
        if !listed.iter().any(|thread| thread.number == unknown) {
            return Some(unknown);
        }
    }
    None
}

/// True if the program's threads can be distinguished from those of the runtime side.
pub fn can_identify(rt: &Runtime) -> bool {
    rt.threads.borrow().is_some()
}

/// Returns the numbers of the program's threads other than the calling one.
///
/// Empty if the threads cannot be listed now.
pub fn numbers(rt: &Runtime) -> Vec<ThreadNumber> {
    let threads = rt.threads.borrow();
    let listed = threads
        .as_ref()
        .and_then(|threads| threads.list_offsets.threads())
        .unwrap_or_default();
    let own = listed
        .iter()
        .filter(|thread| !thread.is_runtimes() && thread.number > 0);
    own.map(|thread| ThreadNumber::new(thread.number)).collect()
}

/// True if a thread of the program has this number.
///
/// Also true if the threads cannot be listed now: the next cut then detects a wrong answer.
pub fn may_have(rt: &Runtime, number: ThreadNumber) -> bool {
    has_thread_where(rt, |own| own == number.get())
}

/// Records all threads, which must be stopped.
pub fn capture(rt: &Runtime) -> Result<ThreadsAtCut, UserError> {
    let threads = rt.threads.borrow();
    let Some(threads) = threads.as_ref() else {
        return Ok(ThreadsAtCut::default());
    };
    let found = threads
        .parked()
        .map(read_parked)
        .collect::<Result<Vec<SavedThread>, UserError>>()?;
    let caller = mpi_lock::is_other_thread().then(read_caller).transpose()?;
    let libraries = match found[..] {
        [] => Vec::new(),
        _ => dtv_generations::generations().ok_or(UserError::ThreadDataUnknown)?,
    };
    // A program without other threads may still have stacks for reuse.
    // SAFETY: all threads are stopped.
    let lists = unsafe { threads.list_offsets.save() }
        .ok_or(UserError::ThreadsNotStopped(StopError::Loader))?;
    Ok(ThreadsAtCut {
        threads: found,
        lists,
        libraries,
        caller,
        is_shared: mpi_lock::is_shared(),
        is_multiple: work_flags::is_multiple(),
    })
}

fn read_parked(slot: &slot::Slot) -> Result<SavedThread, UserError> {
    let thread = read_thread(
        slot.number.load(Ordering::Relaxed),
        slot.block.load(Ordering::Relaxed) as u64,
    )?;
    Ok(SavedThread {
        gs: slot.gs.load(Ordering::Relaxed) as u64,
        frame: slot.frame.load(Ordering::Relaxed) as u64,
        ..thread
    })
}

fn read_caller() -> Result<SavedThread, UserError> {
    const ARCH_GET_GS: usize = 0x1004;
    // SAFETY: arch_prctl(2) writes one word, `gs`; gettid(2) accesses no memory.
    unsafe {
        let mut gs = 0u64;
        raw_syscall::syscall(
            libc::SYS_arch_prctl,
            [ARCH_GET_GS, &raw mut gs as usize, 0, 0, 0, 0],
        );
        let thread = read_thread(libc::gettid(), mpi_lock::current_block() as u64)?;
        Ok(SavedThread { gs, ..thread })
    }
}

fn read_thread(number: i32, block: u64) -> Result<SavedThread, UserError> {
    let [own, main] = [ThreadNumber::new(number), ThreadNumber::main()].map(processors);
    let name =
        std::fs::read_to_string(format!("/proc/self/task/{number}/comm")).unwrap_or_default();
    Ok(SavedThread {
        number: ThreadNumber::new(number),
        block,
        generation: dtv_generations::generation_of(block).ok_or(UserError::ThreadDataUnknown)?,
        gs: 0,
        frame: 0,
        robust: robust_list(number),
        name: name.trim_end_matches('\n').to_owned(),
        processors: (own != main).then_some(own),
    })
}

/// Number of words of the largest set of processors.
const WORDS: usize = 128;

fn processors(thread: ThreadNumber) -> Vec<u64> {
    let mut words = vec![0u64; WORDS];
    let length = WORDS * size_of::<u64>();
    // SAFETY: sched_getaffinity(2) writes at most this number of bytes, and returns their number.
    let written = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            thread.get(),
            length,
            words.as_mut_ptr(),
        )
    };
    words.truncate(written.max(0) as usize / size_of::<u64>());
    words
}

fn robust_list(number: i32) -> [u64; 2] {
    let mut list = [0u64; 2];
    // SAFETY: get_robust_list(2) writes both words.
    unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            number,
            &raw mut list[0],
            &raw mut list[1],
        )
    };
    list
}
