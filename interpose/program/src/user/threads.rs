//! Threads of the program beside the one that is in MPI.
//!
//! ```text
//!   a cut        stop ── all that a signal reaches stand still, or the cut is put off
//!                save ── what the kernel knows of each; the rest is in the image, with the frame of the signal
//!                let go
//!   a recovery   stop ── before files or memory are put back
//!                end those that are not in the image, put back lists and pages, make those that are missing
//!                let go ── from the frames in the image
//! ```
//!
//! Threads of the runtime side have their stacks in the zone; nobody stops those.
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

/// Tells where the kernel's numbers of threads are, which calls of other threads need.
pub fn tell_numbers() {
    if let Some(place) = sys::debuggers_offset(c"_thread_db_pthread_tid") {
        turn::numbers_are_at(place as usize);
    }
}

/// What is saved of a thread. Its registers, signal mask and signal stack are in the frame, which
/// is in the image.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Thread {
    number: ThreadNumber,
    /// `struct pthread`: the fs register.
    block: u64,
    gs: u64,
    frame: u64,
    /// The libraries whose thread-local data it knows of.
    generation: u64,
    /// The list of its robust mutexes, and the length of its head.
    robust: [u64; 2],
    name: String,
    /// The processors that it may run on, if they are not the main thread's.
    processors: Option<Vec<u64>>,
}

/// All of them, and what ld.so knows of their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    threads: Vec<Thread>,
    lists: lists::Saved,
    libraries: Vec<vectors::Generation>,
    /// The thread that has made the cut, with no frame, if that was not the main one, which is
    /// among the others then.
    caller: Option<Thread>,
    /// Whether any thread may call MPI, and several at the same time.
    is_shared: bool,
    is_multiple: bool,
}

impl Saved {
    /// The numbers of all but perhaps the main one.
    pub fn numbers(&self) -> impl Iterator<Item = ThreadNumber> {
        self.threads
            .iter()
            .chain(&self.caller)
            .map(|thread| thread.number)
    }

    /// How far down the main thread's stack is in use, if it was stopped.
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

/// How long a cut waits for a thread, and how long a recovery.
const CUT_TIMEOUT: Duration = Duration::from_millis(50);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// From here on threads can be stopped, where this C library is known. Before the program runs.
pub fn allow(rt: &Runtime) {
    rt.threads.set(Places::find().map(Threads::new));
}

/// Refuses if the program has created a thread that could not be brought back.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    let created = told::created_threads();
    if created == 0 || rt.threads.borrow().is_some() {
        Ok(())
    } else {
        Err(UserError::Threads(created))
    }
}

/// Stops all threads for a cut; false: it must be put off.
pub fn stop(rt: &Runtime) -> bool {
    let mut threads = rt.threads.borrow_mut();
    threads
        .as_mut()
        .is_none_or(|threads| threads.try_to_stop(CUT_TIMEOUT))
}

/// Stops all threads for a recovery, which cannot be put off.
pub fn stop_for_good(rt: &Runtime) -> Result<(), UserError> {
    let mut threads = rt.threads.borrow_mut();
    let Some(threads) = threads.as_mut() else {
        return Ok(());
    };
    let begin = Instant::now();
    loop {
        match threads.stop(RECOVERY_TIMEOUT) {
            Ok(()) => return Ok(()),
            // It leaves ld.so when it is let go.
            Err(Deaf::Loader) if begin.elapsed() < RECOVERY_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL)
            }
            Err(deaf) => return Err(UserError::Deaf(deaf)),
        }
    }
}

/// Lets all go on as if nothing had been.
pub fn let_go(rt: &Runtime) {
    if let Some(threads) = rt.threads.borrow_mut().as_mut() {
        threads.release(slot::GO_ON);
    }
}

/// Lets all go on from what has been loaded; the call at the cut was that of `frame`.
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

/// Whether one of the program's threads has such a number, or nobody can tell just now; not so
/// where threads cannot be told apart.
fn is_any(rt: &Runtime, has: impl Fn(i32) -> bool) -> bool {
    let threads = rt.threads.borrow();
    let Some(threads) = threads.as_ref() else {
        return false;
    };
    // Somebody is in the lists just now, who is no program of one thread.
    let listed = threads.places.threads();
    listed.is_none_or(|listed| {
        listed
            .iter()
            .any(|thread| !thread.is_runtimes() && has(thread.number))
    })
}

/// Whether the program has threads beside the main one that could be stopped.
pub fn are_there(rt: &Runtime) -> bool {
    is_any(rt, |number| number > 0)
}

/// Returns a thread that was made by clone(2) itself, which ld.so does not know.
///
/// A thread that begins or ends is known for a moment to the kernel alone.
pub fn unknown(rt: &Runtime) -> Option<i32> {
    const ATTEMPTS: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(2);
    let threads = rt.threads.borrow();
    let places = &threads.as_ref()?.places;
    for _ in 0..ATTEMPTS {
        let listed = places.threads()?;
        let numbers: Vec<i32> = listed.iter().map(|thread| thread.number).collect();
        // The directory's links are those of its entries (proc(5)): `.`, `..`, and the threads.
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

/// Whether threads can be told apart from those of the runtime side.
pub fn are_known(rt: &Runtime) -> bool {
    rt.threads.borrow().is_some()
}

/// The numbers of the program's threads but the calling one's, as far as can be told just now.
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

/// Whether a thread of the program's has this number, or nobody can tell just now: what is not so
/// is seen at the next cut.
pub fn may_have(rt: &Runtime, number: ThreadNumber) -> bool {
    is_any(rt, |own| own == number.get())
}

/// Looks at all threads, which stand still.
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
    // Without threads there may be stacks to be used again.
    // SAFETY: all stand still.
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

/// Words of a set of processors: as many as the kernel knows at most.
const WORDS: usize = 128;

fn processors(thread: ThreadNumber) -> Vec<u64> {
    let mut words = vec![0u64; WORDS];
    let length = WORDS * size_of::<u64>();
    // SAFETY: sched_getaffinity(2) writes that many bytes at most, and tells how many.
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
