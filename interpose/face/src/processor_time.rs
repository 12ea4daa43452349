//! Processor time and resource usage that the program sees in a replacement.
//!
//! A replacement calls these functions in place of libc's ([`crate::libc_procedures`]). They add
//! the carried values ([`CarriedTime`]) to the kernel's.
#![allow(unsafe_code)]

use crate::libc::next;
use crate::sys::{nr, sys};
use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::AtomicPtr;
use understudy_abi::processor_time::{CarriedTime, Subject, USAGE_VALUES, time_index};

/// Values of the failed process; the runtime sets them in a replacement.
pub static CARRIED_TIME: CarriedTime = CarriedTime::new();

const CLOCK_PROCESS: c_int = 2;
const CLOCK_THREAD: c_int = 3;
/// Clock of the calling process, as clock_getcpuclockid(3) encodes it for process 0.
const CLOCK_THIS_PROCESS: c_int = -6;
/// Clock of the calling thread, in the encoding of pthread_getcpuclockid(3).
const CLOCK_THIS_THREAD: c_int = -2;

/// `struct timespec`: seconds and nanoseconds.
type Time = [i64; 2];
/// `struct rusage`: two times in seconds and microseconds, then further words.
type Resources = [i64; 2 + USAGE_VALUES];
/// `struct tms`: user and system time of the process and of its children.
type Ticks = [c_long; 4];

/// Ticks of times(2) per second on every Linux of this architecture.
const TICKS_PER_SECOND: i64 = 100;

static REAL: [AtomicPtr<c_void>; 4] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 4];
const NAMES: [&CStr; 4] = [c"clock_gettime", c"clock", c"times", c"getrusage"];

fn real(index: usize) -> *mut c_void {
    next(&REAL[index], NAMES[index])
}

/// Returns the function that replaces libc's function of this name.
pub fn replacing_function(name: &CStr) -> Option<*mut c_void> {
    let index = NAMES.iter().position(|replaced| *replaced == name)?;
    // libc's function is looked up now, because the first call may be made in a signal handler,
    // where dlsym(3) must not be called.
    real(index);
    let functions = [
        clock_gettime as *const (),
        clock as *const (),
        times as *const (),
        getrusage as *const (),
    ];
    Some(functions[index] as *mut c_void)
}

/// Returns true if carried values must be added for the caller.
///
/// The process's values are carried for all threads, the main thread's for the main thread only.
fn is_carried(subject: Subject) -> bool {
    let owner = CARRIED_TIME.owner();
    // SAFETY: getpid(2) and gettid(2) have no preconditions.
    let caller = || unsafe {
        match subject {
            Subject::MainThread => sys!(nr::GETTID),
            _ => sys!(nr::GETPID),
        }
    };
    owner != 0 && caller() == owner as isize
}

/// clock_gettime(2).
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Time) -> c_int {
    // SAFETY: libc's function has this type; it stores its result in the caller's structure.
    unsafe {
        let real: unsafe extern "C" fn(c_int, *mut Time) -> c_int = core::mem::transmute(real(0));
        if clock & !1 != CLOCK_PROCESS && clock >= 0 {
            return real(clock, time);
        }
        let result = real(clock, time);
        let subject = match clock {
            CLOCK_PROCESS | CLOCK_THIS_PROCESS => Subject::Process,
            CLOCK_THREAD | CLOCK_THIS_THREAD => Subject::MainThread,
            _ => return result,
        };
        if result == 0 && is_carried(subject) {
            const SECOND: i64 = 1_000_000_000;
            let [seconds, nanoseconds] = time.read();
            let seen = CARRIED_TIME.seen(time_index(subject), seconds * SECOND + nanoseconds);
            time.write([seen / SECOND, seen % SECOND]);
        }
        result
    }
}

/// clock(3).
unsafe extern "C" fn clock() -> c_long {
    let mut time = [0; 2];
    // SAFETY: the structure is a local variable.
    match unsafe { clock_gettime(CLOCK_PROCESS, &mut time) } {
        0 => time[0] * 1_000_000 + time[1] / 1000,
        _ => -1,
    }
}

/// times(2).
unsafe extern "C" fn times(ticks: *mut Ticks) -> c_long {
    // SAFETY: libc's function has this type; the structures are local or the caller's.
    unsafe {
        let real: unsafe extern "C" fn(*mut Ticks) -> c_long = core::mem::transmute(real(2));
        let result = real(ticks);
        if !ticks.is_null() && is_carried(Subject::Process) {
            let mut usages: [Resources; 2] = [[0; 2 + USAGE_VALUES]; 2];
            getrusage(RUSAGE_SELF, &mut usages[0]);
            getrusage(RUSAGE_CHILDREN, &mut usages[1]);
            let in_ticks = |time: &[i64]| {
                time[0] * TICKS_PER_SECOND + time[1] / (1_000_000 / TICKS_PER_SECOND)
            };
            let [own, children] = usages.each_ref();
            let all = [&own[..2], &own[2..4], &children[..2], &children[2..4]];
            ticks.write(all.map(in_ticks));
        }
        result
    }
}

const RUSAGE_CHILDREN: c_int = -1;
const RUSAGE_SELF: c_int = 0;
const RUSAGE_THREAD: c_int = 1;

/// getrusage(2).
unsafe extern "C" fn getrusage(who: c_int, resources: *mut Resources) -> c_int {
    // SAFETY: libc's function has this type; it stores its result in the caller's structure.
    unsafe {
        let real: unsafe extern "C" fn(c_int, *mut Resources) -> c_int =
            core::mem::transmute(real(3));
        let result = real(who, resources);
        let subject = match who {
            RUSAGE_SELF => Subject::Process,
            RUSAGE_CHILDREN => Subject::Children,
            RUSAGE_THREAD => Subject::MainThread,
            _ => return result,
        };
        if result == 0 && is_carried(subject) {
            add_usage(time_index(subject) + 1, &mut *resources);
        }
        result
    }
}

/// Adds carried values to a structure, beginning with the value of index `first`.
fn add_usage(first: usize, resources: &mut Resources) {
    const SECOND: i64 = 1_000_000;
    let (times, rest) = resources.split_at_mut(4);
    for (index, time) in times.chunks_exact_mut(2).enumerate() {
        let seen = CARRIED_TIME.seen(first + index, time[0] * SECOND + time[1]);
        time.copy_from_slice(&[seen / SECOND, seen % SECOND]);
    }
    for (index, value) in rest.iter_mut().enumerate() {
        *value = CARRIED_TIME.seen(first + 2 + index, *value);
    }
}
