//! Timers of this process: listed, created and set through the kernel.
#![allow(unsafe_code)]

use crate::runtime_state::StateCell;
use crate::user::UserError;
use crate::user::thread_number::{ThreadNumber, ThreadNumberChange};
use std::cell::Cell;
use std::io;
use understudy_formats::proc_file::ProcFile;

/// State of the timers that is kept between cuts.
pub struct Timers {
    /// Address of glibc's variable with the number of its helper thread; zero if unknown.
    pub helper: Cell<u64>,
    /// All timers, read after all threads had stopped; empty unless `signals_threads` is true.
    pub stopped: StateCell<Vec<Timer>>,
    /// True if the last check found a timer that signals a thread other than main.
    pub signals_threads: Cell<bool>,
}

impl Timers {
    /// State at the start of the process.
    pub const fn new() -> Timers {
        Timers {
            helper: Cell::new(0),
            stopped: StateCell::new(Vec::new()),
            signals_threads: Cell::new(false),
        }
    }
}

/// Interval and remaining time of `struct itimerspec`, in seconds and nanoseconds.
pub type TimerTimes = [i64; 4];

/// Properties of a timer that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct TimerKind {
    pub number: i32,
    pub signal: i32,
    /// `sigev_value`
    value: u64,
    pub notice: Notification,
    clock: i32,
}

/// `sigev_notify`
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Notification {
    Process,
    Thread(ThreadNumber),
    Disabled,
}

/// Timer and its interval and remaining time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Timer {
    pub kind: TimerKind,
    time: TimerTimes,
}

/// Signal that glibc's helper thread waits for.
pub const SIGTIMER: i32 = 32;

fn failed(number: i32, action: &str) -> UserError {
    UserError::Timer(format!(
        "timer {number} {action}: {}",
        io::Error::last_os_error()
    ))
}

/// Parses the kernel's list, which has four lines for each timer.
///
/// `None` if the format is unknown.
fn parse(list: &str) -> Option<Vec<TimerKind>> {
    let lines: Vec<&str> = list.lines().collect();
    lines.chunks(4).map(parse_timer).collect()
}

fn parse_timer(lines: &[&str]) -> Option<TimerKind> {
    let field = |at: usize, name: &str| lines.get(at)?.strip_prefix(name)?.strip_prefix(": ");
    let (signal, value) = field(1, "signal")?.split_once('/')?;
    let (method, target) = field(2, "notify")?.split_once('/')?;
    let notice = match (method, target.strip_prefix("tid.")) {
        ("none", _) => Notification::Disabled,
        ("signal", None) => Notification::Process,
        // Zero if the thread has ended.
        ("signal", Some(thread)) => Notification::Thread(ThreadNumber::new(thread.parse().ok()?)),
        _ => return None,
    };
    Some(TimerKind {
        number: field(0, "ID")?.parse().ok()?,
        signal: signal.parse().ok()?,
        value: u64::from_str_radix(value, 16).ok()?,
        notice,
        clock: field(3, "ClockID")?.parse().ok()?,
    })
}

/// Returns the program's timers.
///
/// Empty if the kernel keeps no list (without CONFIG_CHECKPOINT_RESTORE).
pub fn list() -> Vec<TimerKind> {
    static TIMERS: ProcFile = ProcFile::new("/proc/self/timers");
    let text = TIMERS.read().unwrap_or_default();
    let mut timers = parse(&text).unwrap_or_default();
    // Timers of fault injection (`fault`) kill this process only, and must not exist in a
    // replacement.
    timers.retain(|timer| timer.signal != libc::SIGKILL);
    timers
}

/// Returns a mask of the signals of the program's timers.
pub fn signals() -> u64 {
    let signals = list().into_iter().map(|timer| timer.signal);
    let signals = signals.filter(|&signal| signal > 0);
    signals.fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Returns glibc's helper thread for timers that start threads, which receives [`SIGTIMER`].
pub fn signalled(timers: &[TimerKind]) -> Option<ThreadNumber> {
    timers.iter().find_map(|kind| match kind.notice {
        Notification::Thread(thread) if kind.signal == SIGTIMER => Some(thread),
        _ => None,
    })
}

/// Returns all timers with their remaining times.
pub fn read_all() -> Vec<Timer> {
    let time = |kind: &TimerKind| {
        let mut time: TimerTimes = [0; 4];
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

/// Sets timers that have expired since all threads stopped to expire after 1 ns.
///
/// Concerns timers that signal a thread other than the main thread. The thread has not received the
/// signal yet, so the signal must be repeated.
pub fn set_expired(timers: &mut [Timer], stopped: &[Timer]) {
    let was_running = |kind: TimerKind| {
        stopped
            .iter()
            .any(|timer| timer.kind == kind && !timer.has_expired())
    };
    for timer in timers {
        let is_threads = matches!(timer.kind.notice, Notification::Thread(thread) if thread != ThreadNumber::main());
        if is_threads && timer.has_expired() && was_running(timer.kind) {
            timer.time[3] = 1;
        }
    }
}

/// Returns the current number of a thread of the image.
pub fn current_number(
    thread: ThreadNumber,
    changed: &[ThreadNumberChange],
) -> Option<ThreadNumber> {
    changed
        .iter()
        .find(|(saved, _)| *saved == thread)
        .map(|&(_, now)| now)
}

impl Timer {
    /// True if the timer has expired and does not repeat, or was never set.
    pub fn has_expired(&self) -> bool {
        self.time == [0; 4]
    }

    /// Returns the timer with the thread number of this process.
    fn translated(self, changed: &[ThreadNumberChange]) -> Result<Timer, UserError> {
        let Notification::Thread(thread) = self.kind.notice else {
            return Ok(self);
        };
        let Some(thread) = current_number(thread, changed) else {
            let number = self.kind.number;
            return Err(UserError::Timer(format!(
                "timer {number} cannot be made again: its thread has ended"
            )));
        };
        let kind = TimerKind {
            notice: Notification::Thread(thread),
            ..self.kind
        };
        Ok(Timer { kind, ..self })
    }
}

/// Stops all timers until [`restore_all`].
pub fn stop() {
    for kind in list() {
        set(&kind, &[0; 4]);
    }
}

/// Sets a timer; returns false if the kernel refuses.
fn set(kind: &TimerKind, time: &TimerTimes) -> bool {
    let old = std::ptr::null::<u8>();
    // SAFETY: timer_settime(2) of a timer of the program, with a valid value.
    unsafe { libc::syscall(libc::SYS_timer_settime, kind.number, 0, time.as_ptr(), old) == 0 }
}

/// Restores the saved timers, with their remaining times.
///
/// # Errors
/// Fails if a timer cannot be created or set.
pub fn restore_all(saved: &[Timer], changed: &[ThreadNumberChange]) -> Result<(), UserError> {
    let existing = list();
    let timers = saved.iter().map(|timer| timer.translated(changed));
    let timers = timers.collect::<Result<Vec<Timer>, UserError>>()?;
    let is_saved = |kind: &TimerKind| timers.iter().any(|timer| timer.kind == *kind);
    existing
        .iter()
        .filter(|kind| !is_saved(kind))
        .for_each(|kind| delete(kind.number));
    for Timer { kind, time } in &timers {
        if !existing.contains(kind) {
            create(kind)?;
        }
        if !set(kind, time) {
            return Err(failed(kind.number, "cannot be set again"));
        }
    }
    Ok(())
}

fn delete(number: i32) {
    // SAFETY: timer_delete(2) accesses no memory.
    unsafe { libc::syscall(libc::SYS_timer_delete, number) };
}

/// Creates a timer with a given number.
///
/// Requests the number from the kernel (Linux 6.15). Older kernels assign increasing numbers, so
/// timers are created and deleted until one has the number.
fn create(kind: &TimerKind) -> Result<(), UserError> {
    const PR_TIMER_CREATE_RESTORE_IDS: i32 = 77;
    let request_numbers = |on: u64| {
        // SAFETY: prctl(2) that selects if timer_create(2) reads the requested number from its
        // result.
        unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, on, 0u64, 0u64, 0u64) }
    };
    if request_numbers(1) == 0 {
        let result = create_any(kind, kind.number);
        request_numbers(0);
        return result.map(drop);
    }
    loop {
        let number = create_any(kind, 0)?;
        if number == kind.number {
            return Ok(());
        }
        delete(number);
        if number > kind.number {
            return Err(UserError::Timer(format!(
                "timer {} cannot be made again, as this kernel assigns other numbers",
                kind.number
            )));
        }
    }
}

fn create_any(kind: &TimerKind, wanted: i32) -> Result<i32, UserError> {
    // SAFETY: a structure of numbers and pointers, for which zeros are valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_signo = kind.signal;
    event.sigev_value.sival_ptr = kind.value as *mut libc::c_void;
    event.sigev_notify = match kind.notice {
        Notification::Process => libc::SIGEV_SIGNAL,
        Notification::Disabled => libc::SIGEV_NONE,
        Notification::Thread(thread) => {
            event.sigev_notify_thread_id = thread.get();
            libc::SIGEV_THREAD_ID
        }
    };
    let mut number = wanted;
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
        let notices: Vec<Notification> = timers.iter().map(|timer| timer.notice).collect();
        let [main, other] = [42, 43].map(|number| Notification::Thread(ThreadNumber::new(number)));
        assert_eq!(
            notices,
            [Notification::Process, main, other, Notification::Disabled]
        );
        assert_eq!(signalled(&timers), Some(ThreadNumber::new(43)));
        let clocks: Vec<i32> = timers.iter().map(|timer| timer.clock).collect();
        assert_eq!(clocks, [1, 0, 0, -6]);
        assert_eq!(
            (timers[0].number, timers[0].signal, timers[0].value),
            (7, 14, 0x1267)
        );
        assert_eq!(parse(""), Some(Vec::new()));
        assert_eq!(parse("something else\n"), None);
    }

    /// A rollback deletes a new timer, and creates a missing one with number and time.
    ///
    /// A kernel before Linux 6.15 may assign other numbers; then the rollback fails.
    #[test]
    fn timers_are_restored_with_their_numbers() {
        let kind = |notice, value| TimerKind {
            number: 0,
            signal: libc::SIGURG,
            value,
            notice,
            clock: libc::CLOCK_MONOTONIC,
        };
        let make = |notice, value| create_any(&kind(notice, value), 0).expect("a timer");
        let first = make(Notification::Process, 1);
        make(Notification::Disabled, 2);
        let hour: TimerTimes = [3600, 0, 1800, 0];
        // SAFETY: timer_settime(2) of a timer of this test reads a valid value.
        unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                first,
                0,
                hour.as_ptr(),
                std::ptr::null::<u8>(),
            )
        };
        let saved = read_all();
        assert_eq!(saved.len(), 2);
        make(Notification::Disabled, 3);
        assert!(restore_all(&saved, &[]).is_ok());
        let kinds = |saved: &[Timer]| saved.iter().map(|timer| timer.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&read_all()), kinds(&saved));
        delete(first);
        match restore_all(&saved, &[]) {
            Ok(()) => {
                let now = read_all();
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
    fn timers_that_expire_while_threads_are_stopped_expire_later() {
        let timer = |number, notice, time| Timer {
            kind: TimerKind {
                number,
                signal: SIGTIMER,
                value: 0,
                notice,
                clock: libc::CLOCK_MONOTONIC,
            },
            time,
        };
        let thread = Notification::Thread(ThreadNumber::new(43));
        let (never, later): (TimerTimes, TimerTimes) = ([0; 4], [0, 0, 0, 5000]);
        let stopped = [
            timer(0, thread, later),
            timer(1, thread, never),
            timer(2, Notification::Process, later),
        ];
        let mut now = [0, 1, 2, 3].map(|number| {
            timer(
                number,
                if number == 2 {
                    Notification::Process
                } else {
                    thread
                },
                never,
            )
        });
        set_expired(&mut now, &stopped);
        assert_eq!(now.map(|timer| timer.time[3]), [1, 0, 0, 0]);
        let moved = [(ThreadNumber::new(43), ThreadNumber::new(99))];
        let there = now[0]
            .translated(&moved)
            .expect("its thread is there")
            .kind
            .notice;
        assert_eq!(there, Notification::Thread(ThreadNumber::new(99)));
        assert!(now[0].translated(&[]).is_err());
    }
}
