//! Processor time and resource usage, which a replacement carries over from the failed process.
#![allow(unsafe_code)]

use crate::process_info;
use understudy_abi::processor_time::{
    CarriedTime, READING_VALUES, Reading, Subject, USAGE_VALUES, Usage, time_index,
};

/// Values that the program saw at a cut.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct ProcessorTime(Reading);

fn carried() -> &'static CarriedTime {
    // SAFETY: the preload library's values live as long as the process.
    unsafe { &*process_info::info().program_processor_time }
}

/// Reads the values at a cut.
pub(super) fn capture() -> ProcessorTime {
    ProcessorTime(seen_reading(kernel_reading(Rounding::Up)))
}

/// Ensures that the program sees no smaller values than at the cut.
///
/// `is_survivor` is true if this process was saved, or has become a replacement since the cut. The
/// values then continue from those that the program has seen.
pub(super) fn restore(saved: &ProcessorTime, is_survivor: bool) {
    let now = kernel_reading(Rounding::Down);
    let is_less = |now: &Reading| now.iter().zip(&saved.0).any(|(now, then)| now < then);
    let mut wanted = saved.0;
    if is_survivor {
        let seen = seen_reading(now);
        if !is_less(&seen) {
            return;
        }
        wanted = std::array::from_fn(|place| wanted[place].max(seen[place]));
    }
    carried().set(process(), &now, &wanted);
    // SAFETY: all threads of the program are stopped.
    unsafe { (process_info::info().carry_processor_time)() };
}

fn process() -> i32 {
    std::process::id() as i32
}

/// Returns the values that the program sees if the kernel has the values `kernel`.
fn seen_reading(kernel: Reading) -> Reading {
    if carried().owner() != process() {
        return kernel;
    }
    std::array::from_fn(|place| carried().seen(place, kernel[place]))
}

/// Rounding of other threads' times, which the kernel reports in ticks only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Up,
    Down,
}

/// Reads the kernel's values.
fn kernel_reading(rounding: Rounding) -> Reading {
    let main = process();
    // SAFETY: gettid(2) has no arguments and accesses no memory.
    let is_main = unsafe { libc::gettid() } == main;
    let usage_of_main = match is_main {
        true => usage(libc::RUSAGE_THREAD),
        false => usage_of_thread(main, rounding),
    };
    let mut reading = [0; READING_VALUES];
    for (subject, clock, usage) in [
        (
            Subject::Process,
            libc::CLOCK_PROCESS_CPUTIME_ID,
            usage(libc::RUSAGE_SELF),
        ),
        (Subject::Children, NO_CLOCK, usage(libc::RUSAGE_CHILDREN)),
        (Subject::MainThread, clock_of_thread(main), usage_of_main),
    ] {
        let values = &mut reading[time_index(subject)..][..1 + USAGE_VALUES];
        values[0] = nanoseconds(clock);
        values[1..].copy_from_slice(&usage);
    }
    reading
}

/// Clock that does not exist in the kernel.
const NO_CLOCK: libc::clockid_t = libc::clockid_t::MAX;

/// Returns the clock of a thread of this process (pthread_getcpuclockid(3)).
fn clock_of_thread(number: i32) -> libc::clockid_t {
    /// CPUCLOCK_PERTHREAD_MASK of the kernel.
    const PER_THREAD: i32 = 1 << 2;
    /// `CPUCLOCK_SCHED` of the kernel.
    const EXACT: i32 = 2;
    (!number << 3) | PER_THREAD | EXACT
}

/// Reads a clock; zero if the kernel does not support it.
fn nanoseconds(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime(2) writes the structure, or nothing.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn usage(who: i32) -> Usage {
    let mut words = [0i64; 2 + USAGE_VALUES];
    // SAFETY: getrusage(2) writes a structure of this size.
    unsafe { libc::getrusage(who, words.as_mut_ptr().cast()) };
    let mut usage = [0; USAGE_VALUES];
    usage[0] = words[0] * 1_000_000 + words[1];
    usage[1] = words[2] * 1_000_000 + words[3];
    usage[2..].copy_from_slice(&words[4..]);
    usage
}

const _: () = assert!(size_of::<libc::rusage>() == 8 * (2 + USAGE_VALUES));

// Indices into `Usage`, which begins with the two times and the largest resident set.
const MINOR_FAULTS: usize = 6;
const MAJOR_FAULTS: usize = 7;
const BLOCKS_IN: usize = 9;
const BLOCKS_OUT: usize = 10;
const SWITCHES: [usize; 2] = [14, 15];

/// Reads the usage of another thread from `/proc`, where times are in ticks.
///
/// Saved times are rounded up, so that a replacement sees no smaller values than the failed
/// process.
fn usage_of_thread(number: i32, rounding: Rounding) -> Usage {
    const TICK_US: i64 = 10_000;
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/self/task/{number}/{name}")).unwrap_or_default()
    };
    let stat = read("stat");
    // The name before these fields may contain blanks (proc_pid_stat(5)).
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let field = |number: usize| {
        let text = fields.get(number - 3);
        text.and_then(|text| text.parse().ok()).unwrap_or(0i64)
    };
    let named = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or(0i64)
    };
    let (status, io) = (read("status"), read("io"));
    let up = i64::from(rounding == Rounding::Up);
    let mut usage = [0; USAGE_VALUES];
    // The largest resident set of a thread is that of its process (getrusage(2)).
    usage[2] = self::usage(libc::RUSAGE_SELF)[2];
    usage[0] = (field(14) + up) * TICK_US;
    usage[1] = (field(15) + up) * TICK_US;
    usage[MINOR_FAULTS] = field(10);
    usage[MAJOR_FAULTS] = field(12);
    usage[BLOCKS_IN] = named(&io, "read_bytes:") / 512;
    usage[BLOCKS_OUT] = named(&io, "write_bytes:") / 512;
    usage[SWITCHES[0]] = named(&status, "voluntary_ctxt_switches:");
    usage[SWITCHES[1]] = named(&status, "nonvoluntary_ctxt_switches:");
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_a_thread_is_that_of_getrusage() {
        let mut sum = 0u64;
        while usage(libc::RUSAGE_THREAD)[0] < 50_000 {
            sum = std::hint::black_box(sum + 1);
        }
        // SAFETY: gettid(2) has no arguments and accesses no memory.
        let own = unsafe { libc::gettid() };
        let before = usage(libc::RUSAGE_THREAD);
        let read = [Rounding::Down, Rounding::Up].map(|it| usage_of_thread(own, it));
        let after = usage(libc::RUSAGE_THREAD);
        for place in [2, MINOR_FAULTS, MAJOR_FAULTS, SWITCHES[0], SWITCHES[1]] {
            let range = before[place]..=after[place];
            assert!(range.contains(&read[0][place]), "{place}: {range:?}");
        }
        for place in [0, 1] {
            assert!(read[0][place] <= after[place], "{read:?} {after:?}");
            assert!(read[1][place] >= before[place], "{read:?} {before:?}");
        }
        assert!(nanoseconds(clock_of_thread(own)) >= before[0] * 1000 / 2);
    }

    #[test]
    fn a_clock_that_is_missing_reads_as_zero() {
        assert_eq!(nanoseconds(NO_CLOCK), 0);
    }
}
