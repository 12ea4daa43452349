//! Threads of the program other than the one that has called MPI.
//!
//! ```text
//!   cut        stop ── all threads that receive the signal, or the cut is postponed
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
mod context;
pub(super) mod deaf;
mod lists;
mod restore;
mod slot;
pub(super) mod stop;
mod vectors;
mod waiting;

use super::UserError;
use super::thread_number::ThreadNumber;
use super::tls;
use crate::arch::{self, Frame, raw, turn};
use crate::user::program_runtime::Runtime;
use crate::{attention, sys, told};
pub use context::Caller;
pub use deaf::Deaf;
use lists::Places;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
pub use stop::Threads;
pub(super) use waiting::pending_call;

/// Publishes the offset of the kernel's numbers of threads, which calls of other threads need.
pub fn tell_numbers() {
    if let Some(place) = sys::debuggers_offset(c"_thread_db_pthread_tid") {
        turn::numbers_are_at(place as usize);
    }
}

/// Saved state of a thread.
///
/// The thread's registers, signal mask and signal stack are in the frame, which is in the image.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Thread {
    number: ThreadNumber,
    /// Address of `struct pthread`, the value of the fs register.
    block: u64,
    gs: u64,
    frame: u64,
    /// Generation up to which the thread has recorded libraries with thread-local data.
    generation: u64,
    /// List of the thread's robust mutexes, and the length of its head.
    robust: [u64; 2],
    name: String,
    /// Processors that the thread may run on, if they differ from the main thread's.
    processors: Option<Vec<u64>>,
}

/// Saved threads, and ld.so's lists of their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    threads: Vec<Thread>,
    lists: lists::Saved,
    libraries: Vec<vectors::Generation>,
    /// Thread that made the cut, without a frame; `None` for the main thread.
    ///
    /// If it is another thread, the main thread is one of `threads`.
    caller: Option<Thread>,
    /// True if any thread may call MPI.
    is_shared: bool,
    is_multiple: bool,
}

impl Saved {
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

impl Thread {
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
pub fn allow(rt: &Runtime) {
    rt.threads.set(Places::find().map(Threads::new));
}

/// Refuses a program that has created a thread which cannot be restored.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    let created = told::created_threads();
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
            Err(Deaf::Loader) if begin.elapsed() < RECOVERY_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL)
            }
            Err(deaf) => return Err(UserError::Deaf(deaf)),
        }
    }
}

/// Resumes all threads at the point where they were stopped.
pub fn let_go(rt: &Runtime) {
    if let Some(threads) = rt.threads.borrow_mut().as_mut() {
        threads.release(slot::GO_ON);
    }
}

/// Resumes all threads from the loaded image.
///
/// `frame` is the call at the cut.
pub fn go_back(rt: &Runtime, frame: &Frame) {
    if arch::departs() {
        turn::keep();
    } else {
        turn::pass_to_main(frame);
    }
    if let Some(threads) = rt.threads.borrow_mut().as_mut() {
        threads.release(slot::GO_BACK);
    }
}

/// True if a thread of the program has a number for which `has` is true.
///
/// Also true if the threads cannot be listed now. False if threads cannot be identified at all.
fn is_any(rt: &Runtime, has: impl Fn(i32) -> bool) -> bool {
    let threads = rt.threads.borrow();
    let Some(threads) = threads.as_ref() else {
        return false;
    };
    // The lists are locked now, which shows that the program has several threads.
    let listed = threads.places.threads();
    listed.is_none_or(|listed| {
        listed
            .iter()
            .any(|thread| !thread.is_runtimes() && has(thread.number))
    })
}

/// True if the program has threads other than the main one that could be stopped.
pub fn are_there(rt: &Runtime) -> bool {
    is_any(rt, |number| number > 0)
}

/// Returns a thread that was created by clone(2) directly, and is unknown to ld.so.
///
/// While a thread starts or ends, for a moment only the kernel lists the thread.
pub fn unknown(rt: &Runtime) -> Option<i32> {
    const ATTEMPTS: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(2);
    let threads = rt.threads.borrow();
    let places = &threads.as_ref()?.places;
    for _ in 0..ATTEMPTS {
        let listed = places.threads()?;
        let numbers: Vec<i32> = listed.iter().map(|thread| thread.number).collect();
        // The directory's link count includes `.` and `..` besides the threads (proc(5)).
        let alive = numbers.iter().filter(|&&number| number > 0).count() as u64;
        if std::fs::metadata("/proc/self/task").is_ok_and(|about| about.nlink() <= alive + 3) {
            return None;
        }
        let unknown = stop::tasks().into_iter().find(|it| !numbers.contains(it))?;
        std::thread::sleep(PAUSE);
        if !stop::exists(unknown) {
            continue;
        }
        let listed = places.threads()?;
        if !listed.iter().any(|thread| thread.number == unknown) {
            return Some(unknown);
        }
    }
    None
}

/// True if the program's threads can be distinguished from those of the runtime side.
pub fn are_known(rt: &Runtime) -> bool {
    rt.threads.borrow().is_some()
}

/// Returns the numbers of the program's threads other than the calling one.
///
/// Empty if the threads cannot be listed now.
pub fn numbers(rt: &Runtime) -> Vec<ThreadNumber> {
    let threads = rt.threads.borrow();
    let listed = threads
        .as_ref()
        .and_then(|threads| threads.places.threads())
        .unwrap_or_default();
    let own = listed
        .iter()
        .filter(|thread| !thread.is_runtimes() && thread.number > 0);
    own.map(|thread| ThreadNumber::of(thread.number)).collect()
}

/// True if a thread of the program has this number.
///
/// Also true if the threads cannot be listed now: the next cut then detects a wrong answer.
pub fn may_have(rt: &Runtime, number: ThreadNumber) -> bool {
    is_any(rt, |own| own == number.get())
}

/// Records all threads, which must be stopped.
pub fn capture(rt: &Runtime) -> Result<Saved, UserError> {
    let threads = rt.threads.borrow();
    let Some(threads) = threads.as_ref() else {
        return Ok(Saved::default());
    };
    let found = threads
        .parked()
        .map(look)
        .collect::<Result<Vec<Thread>, UserError>>()?;
    let caller = turn::is_foreign().then(look_at_caller).transpose()?;
    let libraries = match found[..] {
        [] => Vec::new(),
        _ => vectors::generations().ok_or(UserError::Vectors)?,
    };
    // Without threads there may be stacks for reuse.
    // SAFETY: all threads are stopped.
    let lists = unsafe { threads.places.save() }.ok_or(UserError::Deaf(Deaf::Loader))?;
    Ok(Saved {
        threads: found,
        lists,
        libraries,
        caller,
        is_shared: turn::is_shared(),
        is_multiple: attention::is_multiple(),
    })
}

fn look(slot: &slot::Slot) -> Result<Thread, UserError> {
    let thread = look_at(
        slot.number.load(Ordering::Relaxed),
        slot.block.load(Ordering::Relaxed) as u64,
    )?;
    Ok(Thread {
        gs: slot.gs.load(Ordering::Relaxed) as u64,
        frame: slot.frame.load(Ordering::Relaxed) as u64,
        ..thread
    })
}

fn look_at_caller() -> Result<Thread, UserError> {
    const ARCH_GET_GS: usize = 0x1004;
    // SAFETY: gettid(2); arch_prctl(2) writes one word.
    unsafe {
        let mut gs = 0u64;
        raw::call(
            libc::SYS_arch_prctl,
            [ARCH_GET_GS, &raw mut gs as usize, 0, 0, 0, 0],
        );
        let thread = look_at(libc::gettid(), turn::block() as u64)?;
        Ok(Thread { gs, ..thread })
    }
}

fn look_at(number: i32, block: u64) -> Result<Thread, UserError> {
    let [own, main] = [ThreadNumber::of(number), ThreadNumber::main()].map(processors);
    let name =
        std::fs::read_to_string(format!("/proc/self/task/{number}/comm")).unwrap_or_default();
    Ok(Thread {
        number: ThreadNumber::of(number),
        block,
        generation: vectors::known_by(block).ok_or(UserError::Vectors)?,
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
