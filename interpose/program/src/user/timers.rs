//! Timers of timer_create(2), listed by the kernel in /proc/self/timers (proc(5)).
//!
//! The program identifies a timer by the kernel's number. A timer that is missing after a rollback
//! or in a replacement is therefore created with its former number. A timer that signals a thread
//! signals the thread that has replaced it.
//!
//! For timers that start threads (SIGEV_THREAD) glibc has a helper thread: the kernel signals it,
//! and it creates a thread for each expiry. The helper thread is restored like all other threads,
//! with a new number. For timers that the program creates later, glibc stores the number in a
//! variable, which must be changed as well. The variable has no exported name
//! (`__timer_helper_tid`, sysdeps/unix/sysv/linux/timer_routines.c), so it is found by its value:
//! the helper thread is the one that a timer signals, or, without such a timer, the one that blocks
//! all signals. If exactly one word of glibc's data contains the number of that thread, the word is
//! the variable.
#![allow(unsafe_code)]

pub(super) mod kernel_timer;

use super::thread_number::{ThreadNumber, ThreadNumberChange};
use super::thread_status::field_of;
use super::{UserError, loader, threads, zones};
use crate::process_info;
use crate::user::program_runtime::Runtime;
pub(super) use kernel_timer::stop;
use kernel_timer::{Notification, SIGTIMER, Timer, TimerKind, current_number, signalled};
use std::path::Path;
use understudy_abi::STOP_SIGNAL;
use understudy_image::layout::Layout;

/// Timers of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct TimersAtCut {
    timers: Vec<Timer>,
    /// Address of glibc's variable, and the number of the helper thread.
    helper: Option<(u64, ThreadNumber)>,
}

/// True if a thread blocks all signals except that which stops threads.
///
/// The kernel's mask omits SIGKILL and SIGSTOP, which cannot be blocked, and SIGTIMER while the
/// thread waits for this signal.
fn blocks_all_but_stop(thread: ThreadNumber) -> bool {
    let open =
        [libc::SIGKILL, libc::SIGSTOP, STOP_SIGNAL, SIGTIMER].map(|signal| 1u64 << (signal - 1));
    let open = open.iter().fold(0, |set, signal| set | signal);
    field_of(thread, "SigBlk")
        .is_some_and(|blocked| blocked | open == u64::MAX && blocked & 1 << (STOP_SIGNAL - 1) == 0)
}

/// Returns address and value of glibc's variable for the helper thread, if that thread exists.
///
/// # Errors
/// Fails if the variable cannot be identified with certainty.
fn helper(rt: &Runtime, timers: &[TimerKind]) -> Result<Option<(u64, ThreadNumber)>, UserError> {
    let signalled = signalled(timers);
    if signalled.is_none() && !threads::can_identify(rt) {
        return Ok(None);
    }
    let known = rt.timers.helper.get();
    if known != 0 {
        // SAFETY: found before, in glibc's data, which is never unmapped.
        let number = ThreadNumber::new(unsafe { (known as *const i32).read_volatile() });
        return match signalled.is_none_or(|thread| thread == number)
            && threads::may_have(rt, number)
        {
            true => Ok(Some((known, number))),
            false => Err(UserError::TimerThread),
        };
    }
    // SAFETY: the preload library's counter lives as long as the process.
    if unsafe { process_info::info().program_timer_threads.read_volatile() } == 0
        && signalled.is_none()
    {
        return Ok(None);
    }
    let candidates = match signalled {
        Some(thread) => vec![thread],
        None => threads::numbers(rt)
            .into_iter()
            .filter(|&thread| blocks_all_but_stop(thread))
            .collect(),
    };
    let found = candidates.iter().flat_map(|&thread| {
        let words = words_with_number(thread).into_iter();
        words.map(move |word| (word, thread))
    });
    match (&found.collect::<Vec<_>>()[..], signalled) {
        (&[(word, thread)], _) => {
            rt.timers.helper.set(word);
            Ok(Some((word, thread)))
        }
        ([], None) => Ok(None),
        _ => Err(UserError::TimerThread),
    }
}

/// Returns the addresses of words in glibc's data that contain the number of a thread.
fn words_with_number(thread: ThreadNumber) -> Vec<u64> {
    let libraries = loader::libraries();
    let is_libc = |path: &str| {
        Path::new(path)
            .file_name()
            .is_some_and(|name| name == "libc.so.6")
    };
    let libc = libraries.iter().find(|library| is_libc(&library.path));
    let (Some(libc), Ok(layout)) = (libc, Layout::read_self(zones())) else {
        return Vec::new();
    };
    let end = libc.end.next_multiple_of(4096);
    let data = layout.areas().iter().filter(|area| {
        let within = area.range.start >= libc.base && area.range.end <= end;
        within && area.prot.read && area.prot.write
    });
    // SAFETY: the word lies in readable memory of the program side, which is not unmapped during
    // the search.
    let has_number = |word: &u64| unsafe { (*word as *const i32).read_volatile() } == thread.get();
    data.flat_map(|area| (area.range.start..area.range.end).step_by(4))
        .filter(has_number)
        .collect()
}

/// Refuses a timer that signals a thread which a replacement would not have.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    let timers = kernel_timer::list();
    let others = timers.iter().filter_map(|kind| match kind.notice {
        Notification::Thread(thread) if thread != ThreadNumber::main() => Some(thread),
        _ => None,
    });
    let others: Vec<ThreadNumber> = others.collect();
    rt.timers.signals_threads.set(!others.is_empty());
    match others
        .into_iter()
        .all(|thread| threads::may_have(rt, thread))
    {
        true => helper(rt, &timers).map(drop),
        false => Err(UserError::TimerThread),
    }
}

/// True if no signal of an expired timer would be lost at this cut.
///
/// A signal would be lost if its timer signals a thread, has expired and expires only once, and the
/// signal is still pending for the thread. Called after threads have stopped for a cut.
pub fn have_no_lost_expiry(rt: &Runtime) -> bool {
    let timers = if rt.timers.signals_threads.get() {
        kernel_timer::read_all()
    } else {
        Vec::new()
    };
    let is_quiet = |timer: &Timer| match timer.kind.notice {
        Notification::Thread(thread) => {
            !timer.has_expired() || !is_pending(thread, timer.kind.signal)
        }
        _ => true,
    };
    let are_quiet = timers.iter().all(is_quiet);
    *rt.timers.stopped.borrow_mut() = timers;
    are_quiet
}

fn is_pending(thread: ThreadNumber, signal: i32) -> bool {
    field_of(thread, "SigPnd").is_some_and(|set| set >> (signal - 1) & 1 != 0)
}

/// Records all timers.
pub fn capture(rt: &Runtime) -> Result<TimersAtCut, UserError> {
    let mut timers = kernel_timer::read_all();
    kernel_timer::set_expired(
        &mut timers,
        &std::mem::take(&mut *rt.timers.stopped.borrow_mut()),
    );
    let kinds: Vec<TimerKind> = timers.iter().map(|timer| timer.kind).collect();
    let helper = helper(rt, &kinds)?;
    Ok(TimersAtCut { timers, helper })
}

/// Restores the timers of the cut, with their remaining times.
///
/// `changed` contains all threads, which must be stopped.
pub fn restore(
    rt: &Runtime,
    saved: &TimersAtCut,
    changed: &[ThreadNumberChange],
) -> Result<(), UserError> {
    if let Some((variable, helper)) = saved.helper {
        let number = current_number(helper, changed).unwrap_or(helper).get();
        // SAFETY: a variable of glibc, which has an equal address in the process that was saved.
        unsafe { (variable as *mut i32).write_volatile(number) };
    }
    // If the variable was unknown at the cut, it is searched for at the next cut.
    rt.timers
        .helper
        .set(saved.helper.map_or(0, |(variable, _)| variable));
    kernel_timer::restore_all(&saved.timers, changed)
}
