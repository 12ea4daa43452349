//! Timers that the program has made (timer_create(2)), as the kernel lists them in /proc/self/timers (proc(5)).
//!
//! The program knows a timer by the kernel's number for it, so one that is missing after a takeover or a rollback is made
//! again with the same. Timers that start a thread (SIGEV_THREAD) have a thread of glibc's behind them, which is not
//! brought back: the next cut gives protection up.
#![allow(unsafe_code)]

use super::UserError;
use std::io;

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
    /// SIGEV_THREAD_ID with the main thread's number.
    MainThread,
    OtherThread,
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Timer {
    kind: Kind,
    time: Time,
}

/// All timers of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved(Vec<Timer>);

fn failed(number: i32, action: &str) -> UserError {
    UserError::Timer(format!("timer {number} {action}: {}", io::Error::last_os_error()))
}

/// The kernel's list, four lines for each timer; `None` if it looks otherwise.
fn parse(list: &str, main_thread: i32) -> Option<Vec<Kind>> {
    let lines: Vec<&str> = list.lines().collect();
    lines.chunks(4).map(|lines| parse_timer(lines, main_thread)).collect()
}

fn parse_timer(lines: &[&str], main_thread: i32) -> Option<Kind> {
    let field = |at: usize, name: &str| lines.get(at)?.strip_prefix(name)?.strip_prefix(": ");
    let (signal, value) = field(1, "signal")?.split_once('/')?;
    let (how, who) = field(2, "notify")?.split_once('/')?;
    let notice = match (how, who.strip_prefix("tid.")) {
        ("none", _) => Notice::Nobody,
        ("signal", None) => Notice::Process,
        ("signal", Some(thread)) if thread.parse() == Ok(main_thread) => Notice::MainThread,
        _ => Notice::OtherThread,
    };
    Some(Kind {
        number: field(0, "ID")?.parse().ok()?,
        signal: signal.parse().ok()?,
        value: u64::from_str_radix(value, 16).ok()?,
        notice,
        clock: field(3, "ClockID")?.parse().ok()?,
    })
}

/// Empty where the kernel keeps no list (without CONFIG_CHECKPOINT_RESTORE).
fn list() -> Vec<Kind> {
    let text = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
    // The main thread's number is that of the process.
    parse(&text, std::process::id() as i32).unwrap_or_default()
}

/// Refuses if a timer tells a thread that an understudy would not have.
pub fn check() -> Result<(), UserError> {
    match list().iter().any(|kind| kind.notice == Notice::OtherThread) {
        true => Err(UserError::TimerThread),
        false => Ok(()),
    }
}

/// Looks at all timers.
pub fn capture() -> Saved {
    let time = |kind: &Kind| {
        let mut time: Time = [0; 4];
        // SAFETY: timer_gettime(2) writes a structure of this size.
        unsafe { libc::syscall(libc::SYS_timer_gettime, kind.number, time.as_mut_ptr()) };
        time
    };
    Saved(
        list()
            .into_iter()
            .map(|kind| Timer {
                kind,
                time: time(&kind),
            })
            .collect(),
    )
}

/// Makes the timers those of the cut, with the time that was left of each.
pub fn restore(saved: &Saved) -> Result<(), UserError> {
    let now = list();
    let is_saved = |kind: &Kind| saved.0.iter().any(|timer| timer.kind == *kind);
    now.iter()
        .filter(|kind| !is_saved(kind))
        .for_each(|kind| delete(kind.number));
    for Timer { kind, time } in &saved.0 {
        if !now.contains(kind) {
            create(kind)?;
        }
        // SAFETY: timer_settime(2) with a value that was read before.
        let result = unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                kind.number,
                0,
                time.as_ptr(),
                std::ptr::null::<u8>(),
            )
        };
        if result != 0 {
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
        Notice::MainThread | Notice::OtherThread => libc::SIGEV_THREAD_ID,
    };
    event.sigev_notify_thread_id = std::process::id() as i32;
    let mut number = wish;
    // SAFETY: timer_create(2) reads the event, and writes the number.
    match unsafe { libc::syscall(libc::SYS_timer_create, kind.clock, &raw const event, &raw mut number) } {
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
        let timers = parse(LIST, 42).expect("it is one");
        let notices: Vec<Notice> = timers.iter().map(|timer| timer.notice).collect();
        assert_eq!(
            notices,
            [Notice::Process, Notice::MainThread, Notice::OtherThread, Notice::Nobody]
        );
        let clocks: Vec<i32> = timers.iter().map(|timer| timer.clock).collect();
        assert_eq!(clocks, [1, 0, 0, -6]);
        assert_eq!((timers[0].number, timers[0].signal, timers[0].value), (7, 14, 0x1267));
        assert_eq!(parse("", 42), Some(Vec::new()));
        assert_eq!(parse("something else\n", 42), None);
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
        unsafe { libc::syscall(libc::SYS_timer_settime, first, 0, hour.as_ptr(), std::ptr::null::<u8>()) };
        let saved = capture();
        assert_eq!(saved.0.len(), 2);
        make(Notice::Nobody, 3);
        assert!(restore(&saved).is_ok());
        let kinds = |saved: &Saved| saved.0.iter().map(|timer| timer.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&capture()), kinds(&saved));
        delete(first);
        match restore(&saved) {
            Ok(()) => {
                let now = capture();
                let again = now
                    .0
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
}
