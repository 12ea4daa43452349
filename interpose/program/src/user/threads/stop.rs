//! Stopping of the program's threads: either all threads are stopped, or none.
#![allow(unsafe_code)]

use super::slot::{self, FREE, MAX_THREADS, PARKED, RESUME, SENT, STAY, Slot};
use super::stack_lists::ListOffsets;
use super::stop_error::StopError;
use crate::arch::raw_syscall;
use crate::process_info;
use crate::user::signals::action::{Action, action};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use understudy_abi::STOP_SIGNAL;
use understudy_catalogue::message;

/// State of the stopping of the program's threads.
pub struct Threads {
    pub list_offsets: ListOffsets,
    pub slots: &'static [Slot],
    /// Number of stops so far.
    round: u32,
    pub are_stopped: bool,
    /// Consecutive failed stops.
    failures: Option<FailedStops>,
}

/// Failed stops, which are retried at increasing intervals.
///
/// An attempt slows down the program if a thread does not react.
struct FailedStops {
    since: Instant,
    /// Time before which no attempt is made.
    until: Instant,
    pause: Duration,
    has_warned: bool,
}

/// Time without a cut after which the user is warned.
const WARNING_DELAY: Duration = Duration::from_secs(2);
/// Pause after the first failed stop, which doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Guard for the installed signal handler.
struct InstalledHandler {
    before: Action,
}

impl InstalledHandler {
    fn install() -> InstalledHandler {
        const SA_RESTORER: u64 = 0x0400_0000;
        let flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        let code = &process_info::info().stop;
        let stop_action = [
            code.handler as u64,
            flags as u64 | SA_RESTORER,
            code.restorer as u64,
            u64::MAX,
        ];
        let before = action(i64::from(STOP_SIGNAL), Some(&stop_action));
        // SAFETY: the preload library's word, from which its handler gets the address of the
        // handler for signals that the runtime has not sent.
        unsafe { code.other_handler.write(before[0] as usize) };
        InstalledHandler { before }
    }
}

impl Drop for InstalledHandler {
    fn drop(&mut self) {
        action(i64::from(STOP_SIGNAL), Some(&self.before));
    }
}

/// True if a thread has this number.
pub(super) fn exists(number: i32) -> bool {
    // SAFETY: tgkill(2) with signal zero only checks that the thread exists.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == 0 }
}

/// Returns the kernel's numbers of all threads except the calling one.
pub(super) fn tasks() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let numbers = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    // SAFETY: gettid(2) has no arguments and accesses no memory.
    let own = unsafe { libc::gettid() };
    numbers.filter(|&number| number != own).collect()
}

/// Returns the system call in which a thread is, with program counter and stack pointer.
///
/// Source: proc(5), `/proc/pid/task/tid/syscall`.
fn call_of(number: i32) -> [usize; 3] {
    let text =
        std::fs::read_to_string(format!("/proc/self/task/{number}/syscall")).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let hexadecimal = |word: &str| usize::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let parsed = || {
        Some([
            words[0].parse().ok()?,
            hexadecimal(words[8])?,
            hexadecimal(words[7])?,
        ])
    };
    if words.len() == 9 { parsed() } else { None }.unwrap_or_default()
}

/// Sends the stop signal to a thread, with the slot as its value.
fn send(slot: &Slot, number: i32) -> bool {
    // SAFETY: a structure of numbers; rt_tgsigqueueinfo(2) for a thread of this process.
    unsafe {
        let mut info: [usize; 16] = [0; 16];
        info[0] = STOP_SIGNAL as usize;
        // si_code is the third word of 32 bits, si_value the fourth word of 64 bits.
        info[1] = libc::SI_QUEUE as u32 as usize;
        info[3] = std::ptr::from_ref(slot) as usize;
        let call = libc::SYS_rt_tgsigqueueinfo;
        libc::syscall(
            call,
            libc::getpid(),
            number,
            STOP_SIGNAL as c_int,
            info.as_ptr(),
        ) == 0
    }
}

/// Interval between two polls, in nanoseconds.
const POLL_INTERVAL_NS: i64 = 200_000;

/// Result of one poll.
enum PollResult {
    AllStopped,
    /// The thread with this number is not parked yet.
    Running(i32),
}

impl Threads {
    pub fn new(list_offsets: ListOffsets) -> Threads {
        Threads {
            list_offsets,
            slots: slot::create_slots(),
            round: 0,
            are_stopped: false,
            failures: None,
        }
    }

    /// Stops all threads, unless a recent attempt has failed.
    pub fn try_to_stop(&mut self, timeout: Duration) -> bool {
        if self
            .failures
            .as_ref()
            .is_some_and(|failures| Instant::now() < failures.until)
        {
            return false;
        }
        let Err(error) = self.stop(timeout) else {
            self.failures = None;
            return true;
        };
        log::debug!("the cut is postponed: {error}");
        let now = Instant::now();
        let failures = self.failures.get_or_insert(FailedStops {
            since: now,
            until: now,
            pause: FIRST_PAUSE,
            has_warned: false,
        });
        failures.until = now + failures.pause;
        failures.pause = (failures.pause * 2).min(MAX_PAUSE);
        if !failures.has_warned && now - failures.since > WARNING_DELAY {
            failures.has_warned = true;
            crate::system_calls::print_message(message::threads_not_stopped(error));
        }
        false
    }

    /// Returns the slots of the stopped threads.
    pub fn parked(&self) -> impl Iterator<Item = &'static Slot> {
        let round = self.round;
        let is_parked = move |slot: &&Slot| {
            slot.round.load(Ordering::Relaxed) == round
                && slot.state.load(Ordering::SeqCst) == PARKED
        };
        self.slots.iter().filter(is_parked)
    }

    /// Returns this thread's slot of an earlier stop, or a slot without a living thread.
    ///
    /// `number` is zero for a thread that is about to be created. `None` if all slots are in use.
    pub fn slot_for(&self, number: i32) -> Option<&'static Slot> {
        let had_slot = |slot: &&Slot| slot.number.load(Ordering::Relaxed) == number;
        let is_free = |slot: &&Slot| {
            let last = slot.number.load(Ordering::Relaxed);
            last == 0 || !exists(last)
        };
        let found = self
            .slots
            .iter()
            .find(had_slot)
            .or_else(|| self.slots.iter().find(is_free))?;
        if found.number.swap(number, Ordering::Relaxed) != number {
            found.state.store(FREE, Ordering::SeqCst);
        }
        Some(found)
    }

    /// Occupies a free slot for the current stop.
    pub fn occupy(&self, slot: &Slot) {
        slot.round.store(self.round, Ordering::Relaxed);
        slot.command.store(STAY, Ordering::SeqCst);
        slot.state.store(SENT, Ordering::SeqCst);
    }

    /// Stops all threads within `timeout`; on failure no thread stays stopped.
    pub fn stop(&mut self, timeout: Duration) -> Result<(), StopError> {
        if self.are_stopped {
            return Ok(());
        }
        self.round += 1;
        let listed = self.list_offsets.threads().ok_or(StopError::Loader)?;
        if listed
            .iter()
            .all(|thread| thread.is_runtimes() || thread.number <= 0)
        {
            self.are_stopped = true;
            return Ok(());
        }
        let handler = InstalledHandler::install();
        let begin = Instant::now();
        let result = loop {
            match self.signal_and_poll() {
                Ok(PollResult::AllStopped) if self.list_offsets.is_locked() => {
                    break Err(StopError::Loader);
                }
                Ok(PollResult::AllStopped) => break Ok(()),
                Ok(PollResult::Running(number)) if begin.elapsed() > timeout => {
                    break Err(StopError::Thread(number));
                }
                Ok(PollResult::Running(_)) => {}
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(()) => self.are_stopped = true,
            Err(_) => self.release_late(handler),
        }
        result
    }

    /// Resumes the stopped threads after a failed stop.
    ///
    /// A thread that has not reacted yet finds the command to resume in its slot. The handler
    /// stays installed if there is such a thread.
    fn release_late(&self, handler: InstalledHandler) {
        let is_of_round = |slot: &&Slot| slot.round.load(Ordering::Relaxed) == self.round;
        for slot in self.slots.iter().filter(is_of_round) {
            if slot.state.load(Ordering::SeqCst) != FREE {
                slot.send_command(RESUME);
            }
        }
        let is_late = |slot: &Slot| {
            slot.state.load(Ordering::SeqCst) == SENT && exists(slot.number.load(Ordering::Relaxed))
        };
        if self.slots.iter().any(is_late) {
            std::mem::forget(handler);
        }
    }

    /// Sends the stop signal to threads to which it was not sent in this round.
    ///
    /// Then waits until one thread that was sent the signal parks, or the poll interval ends.
    fn signal_and_poll(&self) -> Result<PollResult, StopError> {
        let listed = self.list_offsets.threads().ok_or(StopError::Loader)?;
        let (mut running, mut waited_for) = (None, None);
        for number in tasks() {
            let mut known = listed.iter().filter(|thread| thread.number == number);
            match known.next() {
                Some(thread) if thread.is_runtimes() => continue,
                Some(_) => {}
                // The thread is about to start or to end.
                None => {
                    running = Some(number);
                    continue;
                }
            }
            let slot = self
                .slot_for(number)
                .ok_or(StopError::TooManyThreads(MAX_THREADS))?;
            let is_signalled = slot.round.load(Ordering::Relaxed) == self.round;
            match slot.state.load(Ordering::SeqCst) {
                PARKED if is_signalled => continue,
                FREE => {
                    for (target, value) in slot.call.iter().zip(call_of(number)) {
                        target.store(value, Ordering::Relaxed);
                    }
                    self.occupy(slot);
                    if !send(slot, number) {
                        slot.state.store(FREE, Ordering::SeqCst);
                    }
                }
                // The thread has not reacted to an earlier stop, or is still leaving that stop.
                _ => {}
            }
            (running, waited_for) = (Some(number), Some(slot));
        }
        match waited_for {
            Some(slot) => raw_syscall::futex_wait(&slot.state, SENT, POLL_INTERVAL_NS),
            None if running.is_some() => std::thread::yield_now(),
            None => {}
        }
        Ok(running.map_or(PollResult::AllStopped, PollResult::Running))
    }

    /// Resumes all threads: `RESUME` if no memory has been loaded, `RESUME_FROM_IMAGE` if it has.
    pub fn release(&mut self, command: u32) {
        if std::mem::take(&mut self.are_stopped) {
            self.parked().for_each(|slot| slot.send_command(command));
        }
    }
}
