//! Timers that the program has made (timer_create(2)), as the kernel lists them in /proc/self/timers (proc(5)).
//!
//! The program knows a timer by the kernel's number for it, so one that is missing after a takeover or a rollback is made
//! again with the same. One that signals a thread signals the thread that has taken its place.
//!
//! Behind timers that start threads (SIGEV_THREAD) there is a thread of glibc's: the kernel signals it, and it creates a thread
//! for each expiry. It is brought back like all others. glibc keeps its number for the timers that are made later, in a variable
//! that has no name outside (`__timer_helper_tid`, sysdeps/unix/sysv/linux/timer_routines.c). It is found by its value: if
//! exactly one word of glibc's data has that, it is the variable's. Where there is no such timer just now, the thread is known by
//! the signals that it blocks.
#![allow(unsafe_code)]

use super::locks::{Change, ThreadNumber};
use super::{UserError, loader, threads, zones};
use crate::cell::Field;
use crate::told;
use crate::user::Runtime;
use std::cell::Cell;
use std::io;
use std::path::Path;
use understudy_abi::STOP_SIGNAL;
use understudy_formats::proc_file::ProcFile;
use understudy_image::layout::Layout;

/// What is known of the program's timers.
pub(super) struct Timers {
    /// Where glibc has the number of its thread; 0: not known yet.
    helper: Cell<u64>,
    /// Timers that signal other threads than the main one, as they were when all threads had stopped for this cut.
    stopped: Field<Vec<Timer>>,
    /// Whether there was such a timer at the last check.
    signals_threads: Cell<bool>,
}

impl Timers {
    /// At the start of the process.
    pub(super) const fn new() -> Timers {
        Timers {
            helper: Cell::new(0),
            stopped: Field::new(Vec::new()),
            signals_threads: Cell::new(false),
        }
    }
}

/// `struct itimerspec` as four numbers: interval and time left, in seconds and nanoseconds.
type Time = [i64; 4];

/// What a timer is as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Kind {
    number: i32,
    signal: i32,
    /// `sigev_value`
    value: u64,
    notice: Notice,
    clock: i32,
}

/// `sigev_notify`
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Notice {
    Process,
    Thread(ThreadNumber),
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Timer {
    kind: Kind,
    time: Time,
}

/// All timers of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    timers: Vec<Timer>,
    /// Where glibc has the number of its thread, and that.
    helper: Option<(u64, ThreadNumber)>,
}

/// The signal that glibc's thread waits for.
const SIGTIMER: i32 = 32;

fn failed(number: i32, action: &str) -> UserError {
    UserError::Timer(format!(
        "timer {number} {action}: {}",
        io::Error::last_os_error()
    ))
}

/// The kernel's list, four lines for each timer; `None` if it looks otherwise.
fn parse(list: &str) -> Option<Vec<Kind>> {
    let lines: Vec<&str> = list.lines().collect();
    lines.chunks(4).map(parse_timer).collect()
}

fn parse_timer(lines: &[&str]) -> Option<Kind> {
    let field = |at: usize, name: &str| lines.get(at)?.strip_prefix(name)?.strip_prefix(": ");
    let (signal, value) = field(1, "signal")?.split_once('/')?;
    let (how, who) = field(2, "notify")?.split_once('/')?;
    let notice = match (how, who.strip_prefix("tid.")) {
        ("none", _) => Notice::Nobody,
        ("signal", None) => Notice::Process,
        // 0: it has ended.
        ("signal", Some(thread)) => Notice::Thread(ThreadNumber::of(thread.parse().ok()?)),
        _ => return None,
    };
    Some(Kind {
        number: field(0, "ID")?.parse().ok()?,
        signal: signal.parse().ok()?,
        value: u64::from_str_radix(value, 16).ok()?,
        notice,
        clock: field(3, "ClockID")?.parse().ok()?,
    })
}

/// The program's timers; empty where the kernel keeps no list (without CONFIG_CHECKPOINT_RESTORE).
fn list() -> Vec<Kind> {
    static TIMERS: ProcFile = ProcFile::new("/proc/self/timers");
    let text = TIMERS.read().unwrap_or_default();
    let mut timers = parse(&text).unwrap_or_default();
    // Those of `fault` kill this process, and nobody who takes its part.
    timers.retain(|timer| timer.signal != libc::SIGKILL);
    timers
}

/// Returns the signals of the program's timers, as in a mask.
pub(super) fn signals() -> u64 {
    let signals = list().into_iter().map(|timer| timer.signal);
    let signals = signals.filter(|&signal| signal > 0);
    signals.fold(0, |set, signal| set | 1 << (signal - 1))
}

/// The thread of glibc's behind timers that start threads, by what it is signalled with.
fn signalled(timers: &[Kind]) -> Option<ThreadNumber> {
    timers.iter().find_map(|kind| match kind.notice {
        Notice::Thread(thread) if kind.signal == SIGTIMER => Some(thread),
        _ => None,
    })
}

/// What a field of a thread's status says in hexadecimal (proc(5), `/proc/pid/status`).
pub(super) fn status(thread: ThreadNumber, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/status", thread.get())).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"))?;
    u64::from_str_radix(value, 16).ok()
}

/// All signals but that by which threads stop; the kernel leaves out two that nobody can block, and while it is waited for the timers'.
fn blocks_all_but_stop(thread: ThreadNumber) -> bool {
    let open =
        [libc::SIGKILL, libc::SIGSTOP, STOP_SIGNAL, SIGTIMER].map(|signal| 1u64 << (signal - 1));
    let open = open.iter().fold(0, |set, signal| set | signal);
    status(thread, "SigBlk")
        .is_some_and(|blocked| blocked | open == u64::MAX && blocked & 1 << (STOP_SIGNAL - 1) == 0)
}

/// Where glibc has the number of its thread, and that, if it has one; an error if that is not certain.
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
    let timers = list();
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

/// Threads have stopped for a cut. False: a timer that expires once may have just done so, and the signal would be lost.
pub fn are_quiet(rt: &Runtime) -> bool {
    let timers = if rt.timers.signals_threads.get() {
        look()
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
    status(thread, "SigPnd").is_some_and(|set| set >> (signal - 1) & 1 != 0)
}

fn look() -> Vec<Timer> {
    let time = |kind: &Kind| {
        let mut time: Time = [0; 4];
        // SAFETY: timer_gettime(2) writes a structure of this size.
        unsafe { libc::syscall(libc::SYS_timer_gettime, kind.number, time.as_mut_ptr()) };
        time
    };
    let timers = list().into_iter().map(|kind| Timer {
        kind,
        time: time(&kind),
    });
    timers.collect()
}

/// What has expired since all stopped, which no thread has seen, does so again at once when they go on from here.
fn set_expired(timers: &mut [Timer], stopped: &[Timer]) {
    let was_running = |kind: Kind| {
        stopped
            .iter()
            .any(|timer| timer.kind == kind && !timer.has_expired())
    };
    for timer in timers {
        let is_threads =
            matches!(timer.kind.notice, Notice::Thread(thread) if thread != ThreadNumber::main());
        if is_threads && timer.has_expired() && was_running(timer.kind) {
            timer.time[3] = 1;
        }
    }
}

/// Looks at all timers.
pub fn capture(rt: &Runtime) -> Result<Saved, UserError> {
    let mut timers = look();
    set_expired(
        &mut timers,
        &std::mem::take(&mut *rt.timers.stopped.borrow_mut()),
    );
    let kinds: Vec<Kind> = timers.iter().map(|timer| timer.kind).collect();
    let helper = helper(rt, &kinds)?;
    Ok(Saved { timers, helper })
}

/// The number that a thread of the image has now.
fn now(thread: ThreadNumber, changed: &[Change]) -> Option<ThreadNumber> {
    changed
        .iter()
        .find(|(then, _)| *then == thread)
        .map(|&(_, now)| now)
}

impl Timer {
    /// It was to expire once and has done so, or it was never set.
    fn has_expired(&self) -> bool {
        self.time == [0; 4]
    }

    /// The same for the threads of this process.
    fn translated(self, changed: &[Change]) -> Result<Timer, UserError> {
        let Notice::Thread(thread) = self.kind.notice else {
            return Ok(self);
        };
        let Some(thread) = now(thread, changed) else {
            let number = self.kind.number;
            return Err(UserError::Timer(format!(
                "timer {number} cannot be made again: its thread has ended"
            )));
        };
        let kind = Kind {
            notice: Notice::Thread(thread),
            ..self.kind
        };
        Ok(Timer { kind, ..self })
    }
}

/// Stops all timers, until [`restore`].
pub fn stop() {
    for kind in list() {
        set(&kind, &[0; 4]);
    }
}

/// Sets a timer; whether that was possible.
fn set(kind: &Kind, time: &Time) -> bool {
    let old = std::ptr::null::<u8>();
    // SAFETY: timer_settime(2) of a timer of the program, with a valid value.
    unsafe { libc::syscall(libc::SYS_timer_settime, kind.number, 0, time.as_ptr(), old) == 0 }
}

/// Makes the timers those of the cut, with the time that was left of each. `changed` has all threads, which stand still.
pub fn restore(rt: &Runtime, saved: &Saved, changed: &[Change]) -> Result<(), UserError> {
    if let Some((place, helper)) = saved.helper {
        let number = now(helper, changed).unwrap_or(helper).get();
        // SAFETY: a word of glibc's, which lies where it lay in the process that was saved.
        unsafe { (place as *mut i32).write_volatile(number) };
    }
    // In another process it is looked for again.
    rt.timers
        .helper
        .set(saved.helper.map_or(0, |(place, _)| place));
    make_all(&saved.timers, changed)
}

fn make_all(saved: &[Timer], changed: &[Change]) -> Result<(), UserError> {
    let exist = list();
    let timers = saved.iter().map(|timer| timer.translated(changed));
    let timers = timers.collect::<Result<Vec<Timer>, UserError>>()?;
    let is_saved = |kind: &Kind| timers.iter().any(|timer| timer.kind == *kind);
    exist
        .iter()
        .filter(|kind| !is_saved(kind))
        .for_each(|kind| delete(kind.number));
    for Timer { kind, time } in &timers {
        if !exist.contains(kind) {
            create(kind)?;
        }
        if !set(kind, time) {
            return Err(failed(kind.number, "cannot be set again"));
        }
    }
    Ok(())
}

fn delete(number: i32) {
    // SAFETY: timer_delete(2) of a timer of the program that the saved state does not have.
    unsafe { libc::syscall(libc::SYS_timer_delete, number) };
}

/// Makes a timer with its number: by asking for it (Linux 6.15), or by making timers until their numbers have come that far.
fn create(kind: &Kind) -> Result<(), UserError> {
    const PR_TIMER_CREATE_RESTORE_IDS: i32 = 77;
    let ask = |on: u64| {
        // SAFETY: prctl(2): whether timer_create(2) takes the number from where it writes it.
        unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, on, 0u64, 0u64, 0u64) }
    };
    if ask(1) == 0 {
        let made = create_any(kind, kind.number);
        ask(0);
        return made.map(drop);
    }
    loop {
        let number = create_any(kind, 0)?;
        if number == kind.number {
            return Ok(());
        }
        delete(number);
        if number > kind.number {
            return Err(UserError::Timer(format!(
                "timer {} cannot be made again, as this kernel gives out other numbers",
                kind.number
            )));
        }
    }
}

fn create_any(kind: &Kind, wish: i32) -> Result<i32, UserError> {
    // SAFETY: a plain structure, in which all zeros are valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_signo = kind.signal;
    event.sigev_value.sival_ptr = kind.value as *mut libc::c_void;
    event.sigev_notify = match kind.notice {
        Notice::Process => libc::SIGEV_SIGNAL,
        Notice::Nobody => libc::SIGEV_NONE,
        Notice::Thread(thread) => {
            event.sigev_notify_thread_id = thread.get();
            libc::SIGEV_THREAD_ID
        }
    };
    let mut number = wish;
    // SAFETY: timer_create(2) reads the event, and writes the number.
    match unsafe {
        libc::syscall(
            libc::SYS_timer_create,
            kind.clock,
            &raw const event,
            &raw mut number,
        )
    } {
        0 => Ok(number),
        _ => Err(failed(kind.number, "cannot be made again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ID: 7\nsignal: 14/0000000000001267\nnotify: signal/pid.42\nClockID: 1\n\
                        ID: 0\nsignal: 10/00007fff86e452a8\nnotify: signal/tid.42\nClockID: 0\n\
                        ID: 8\nsignal: 32/0\nnotify: signal/tid.43\nClockID: 0\n\
                        ID: 9\nsignal: 0/0\nnotify: none/pid.42\nClockID: -6\n";

    #[test]
    fn the_kernels_list_is_understood() {
        let timers = parse(LIST).expect("it is one");
        let notices: Vec<Notice> = timers.iter().map(|timer| timer.notice).collect();
        let [main, other] = [42, 43].map(|number| Notice::Thread(ThreadNumber::of(number)));
        assert_eq!(notices, [Notice::Process, main, other, Notice::Nobody]);
        assert_eq!(signalled(&timers), Some(ThreadNumber::of(43)));
        let clocks: Vec<i32> = timers.iter().map(|timer| timer.clock).collect();
        assert_eq!(clocks, [1, 0, 0, -6]);
        assert_eq!(
            (timers[0].number, timers[0].signal, timers[0].value),
            (7, 14, 0x1267)
        );
        assert_eq!(parse(""), Some(Vec::new()));
        assert_eq!(parse("something else\n"), None);
    }

    /// With real timers, in the order of a rollback: one has been made since, one is gone, one runs.
    #[test]
    fn timers_come_back_with_their_numbers() {
        let kind = |notice, value| Kind {
            number: 0,
            signal: libc::SIGURG,
            value,
            notice,
            clock: libc::CLOCK_MONOTONIC,
        };
        let make = |notice, value| create_any(&kind(notice, value), 0).expect("a timer");
        let first = make(Notice::Process, 1);
        make(Notice::Nobody, 2);
        let hour: Time = [3600, 0, 1800, 0];
        // SAFETY: timer_settime(2).
        unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                first,
                0,
                hour.as_ptr(),
                std::ptr::null::<u8>(),
            )
        };
        let saved = look();
        assert_eq!(saved.len(), 2);
        make(Notice::Nobody, 3);
        assert!(make_all(&saved, &[]).is_ok());
        let kinds = |saved: &[Timer]| saved.iter().map(|timer| timer.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&look()), kinds(&saved));
        delete(first);
        match make_all(&saved, &[]) {
            Ok(()) => {
                let now = look();
                let again = now
                    .iter()
                    .find(|timer| timer.kind.number == first)
                    .expect("it is there");
                assert_eq!(kinds(&now).len(), 2);
                assert_eq!(again.kind.value, 1);
                assert_eq!(again.time[0], 3600);
                assert!((1790..=1800).contains(&again.time[2]), "{:?}", again.time);
            }
            Err(why) => assert!(why.to_string().contains("other numbers"), "{why}"),
        }
        list().iter().for_each(|kind| delete(kind.number));
    }

    #[test]
    fn what_expires_while_threads_stand_still_does_so_again() {
        let timer = |number, notice, time| Timer {
            kind: Kind {
                number,
                signal: SIGTIMER,
                value: 0,
                notice,
                clock: libc::CLOCK_MONOTONIC,
            },
            time,
        };
        let thread = Notice::Thread(ThreadNumber::of(43));
        let (never, later): (Time, Time) = ([0; 4], [0, 0, 0, 5000]);
        let stopped = [
            timer(0, thread, later),
            timer(1, thread, never),
            timer(2, Notice::Process, later),
        ];
        let mut now = [0, 1, 2, 3].map(|number| {
            timer(
                number,
                if number == 2 { Notice::Process } else { thread },
                never,
            )
        });
        set_expired(&mut now, &stopped);
        assert_eq!(now.map(|timer| timer.time[3]), [1, 0, 0, 0]);
        let moved = [(ThreadNumber::of(43), ThreadNumber::of(99))];
        let there = now[0]
            .translated(&moved)
            .expect("its thread is there")
            .kind
            .notice;
        assert_eq!(there, Notice::Thread(ThreadNumber::of(99)));
        assert!(now[0].translated(&[]).is_err());
    }
}
