//! Timers that the program has made (timer_create(2)), as the kernel lists them in
//! /proc/self/timers (proc(5)).
//!
//! The program knows a timer by the kernel's number for it, so one that is missing after a takeover
//! or a rollback is made again with the same. One that signals a thread signals the thread that has
//! taken its place.
//!
//! Behind timers that start threads (SIGEV_THREAD) there is a thread of glibc's: the kernel signals
//! it, and it creates a thread for each expiry. It is brought back like all others. glibc keeps its
//! number for the timers that are made later, in a variable that has no name outside
//! (`__timer_helper_tid`, sysdeps/unix/sysv/linux/timer_routines.c). It is found by its value: if
//! exactly one word of glibc's data has that, it is the variable's. Where there is no such timer
//! just now, the thread is known by the signals that it blocks.
#![allow(unsafe_code)]

pub(super) mod kernel_timer;

use super::thread_number::{Change, ThreadNumber};
use super::thread_status::field_of;
use super::{UserError, loader, threads, zones};
use crate::told;
use crate::user::program_runtime::Runtime;
pub(super) use kernel_timer::stop;
use kernel_timer::{Kind, Notice, SIGTIMER, Timer, number_now, signalled};
use std::path::Path;
use understudy_abi::STOP_SIGNAL;
use understudy_image::layout::Layout;

/// All timers of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    timers: Vec<Timer>,
    /// Where glibc has the number of its thread, and that.
    helper: Option<(u64, ThreadNumber)>,
}

/// All signals but that by which threads stop; the kernel leaves out two that nobody can block, and
/// while it is waited for the timers'.
fn blocks_all_but_stop(thread: ThreadNumber) -> bool {
    let open =
        [libc::SIGKILL, libc::SIGSTOP, STOP_SIGNAL, SIGTIMER].map(|signal| 1u64 << (signal - 1));
    let open = open.iter().fold(0, |set, signal| set | signal);
    field_of(thread, "SigBlk")
        .is_some_and(|blocked| blocked | open == u64::MAX && blocked & 1 << (STOP_SIGNAL - 1) == 0)
}

/// Where glibc has the number of its thread, and that, if it has one; an error if that is not
/// certain.
fn helper(rt: &Runtime, timers: &[Kind]) -> Result<Option<(u64, ThreadNumber)>, UserError> {
    let signalled = signalled(timers);
    if signalled.is_none() && !threads::are_known(rt) {
        return Ok(None);
    }
    let known = rt.timers.helper.get();
    if known != 0 {
        // SAFETY: found before, in glibc's data, which is never unmapped.
        let number = ThreadNumber::of(unsafe { (known as *const i32).read_volatile() });
        return match signalled.is_none_or(|thread| thread == number)
            && threads::may_have(rt, number)
        {
            true => Ok(Some((known, number))),
            false => Err(UserError::TimerThread),
        };
    }
    // SAFETY: the face's counter lives as long as the process.
    if unsafe { told::info().user_timer_threads.read_volatile() } == 0 && signalled.is_none() {
        return Ok(None);
    }
    let candidates = match signalled {
        Some(thread) => vec![thread],
        None => threads::numbers(rt)
            .into_iter()
            .filter(|&thread| blocks_all_but_stop(thread))
            .collect(),
    };
    let found = candidates
        .iter()
        .flat_map(|&thread| places(thread).into_iter().map(move |place| (place, thread)));
    match (&found.collect::<Vec<_>>()[..], signalled) {
        (&[(place, thread)], _) => {
            rt.timers.helper.set(place);
            Ok(Some((place, thread)))
        }
        ([], None) => Ok(None),
        _ => Err(UserError::TimerThread),
    }
}

/// Words of glibc's data that have this value.
fn places(thread: ThreadNumber) -> Vec<u64> {
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
    // SAFETY: memory of the user side that can be read, and is not unmapped meanwhile.
    let has = |place: &u64| unsafe { (*place as *const i32).read_volatile() } == thread.get();
    data.flat_map(|area| (area.range.start..area.range.end).step_by(4))
        .filter(has)
        .collect()
}

/// Refuses if a timer signals a thread that an understudy would not have.
pub fn check(rt: &Runtime) -> Result<(), UserError> {
    let timers = kernel_timer::list();
    let others = timers.iter().filter_map(|kind| match kind.notice {
        Notice::Thread(thread) if thread != ThreadNumber::main() => Some(thread),
        _ => None,
    });
    let others: Vec<ThreadNumber> = others.collect();
    rt.timers.signals_threads.set(!others.is_empty());
    match others.into_iter().all(|it| threads::may_have(rt, it)) {
        true => helper(rt, &timers).map(drop),
        false => Err(UserError::TimerThread),
    }
}

/// Threads have stopped for a cut. False: a timer that expires once may have just done so, and the
/// signal would be lost.
pub fn are_quiet(rt: &Runtime) -> bool {
    let timers = if rt.timers.signals_threads.get() {
        kernel_timer::read_all()
    } else {
        Vec::new()
    };
    let is_quiet = |timer: &Timer| match timer.kind.notice {
        Notice::Thread(thread) => !timer.has_expired() || !is_pending(thread, timer.kind.signal),
        _ => true,
    };
    let are_quiet = timers.iter().all(is_quiet);
    *rt.timers.stopped.borrow_mut() = timers;
    are_quiet
}

fn is_pending(thread: ThreadNumber, signal: i32) -> bool {
    field_of(thread, "SigPnd").is_some_and(|set| set >> (signal - 1) & 1 != 0)
}

/// Looks at all timers.
pub fn capture(rt: &Runtime) -> Result<Saved, UserError> {
    let mut timers = kernel_timer::read_all();
    kernel_timer::set_expired(
        &mut timers,
        &std::mem::take(&mut *rt.timers.stopped.borrow_mut()),
    );
    let kinds: Vec<Kind> = timers.iter().map(|timer| timer.kind).collect();
    let helper = helper(rt, &kinds)?;
    Ok(Saved { timers, helper })
}

/// Makes the timers those of the cut, with the time that was left of each. `changed` has all
/// threads, which stand still.
pub fn restore(rt: &Runtime, saved: &Saved, changed: &[Change]) -> Result<(), UserError> {
    if let Some((place, helper)) = saved.helper {
        let number = number_now(helper, changed).unwrap_or(helper).get();
        // SAFETY: a word of glibc's, which lies where it lay in the process that was saved.
        unsafe { (place as *mut i32).write_volatile(number) };
    }
    // In another process it is looked for again.
    rt.timers
        .helper
        .set(saved.helper.map_or(0, |(place, _)| place));
    kernel_timer::restore_all(&saved.timers, changed)
}
