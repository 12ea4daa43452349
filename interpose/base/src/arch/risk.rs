//! Calls of program functions that may fault or not return.
//!
//! Such a function is stopped at any point, and the caller continues.
#![allow(unsafe_code)]

use super::frame::TOP;
use super::guard::{escape_from, escaped, guarded};
use super::turn;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use understudy_mpi::call;

/// Reason for which a function was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stopped {
    Fault = 1,
    /// The function exceeded its time limit.
    Late,
    /// All processes restart from the checkpoint, usually because another one has died.
    Again,
    /// The function has called MPI, or attempted to end the program.
    Call,
}

/// Number of the thread that runs such a function, or 0.
static RUNNER: AtomicI32 = AtomicI32::new(0);
/// Time limit of the function, in nanoseconds on CLOCK_MONOTONIC.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
/// Value of [`Stopped`], or 0.
static WHY: AtomicU8 = AtomicU8::new(0);

/// Interval of further signals after the limit, since a function cannot be stopped everywhere.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Calls `function(argument)` on the runtime's stack, which may call the program.
///
/// Returns `None` if the function has returned.
///
/// # Safety
/// The function's own frames must contain nothing to drop when the program, called by it, is
/// stopped. The program must tolerate being stopped at any point.
pub unsafe fn at_risk<T>(
    limit: Duration,
    argument: &mut T,
    function: unsafe extern "C" fn(*mut c_void),
) -> Option<Stopped> {
    let (top, thread) = (TOP.load(Ordering::Relaxed), turn::main_block());
    WHY.store(0, Ordering::Relaxed);
    DEADLINE.store(
        now().saturating_add(limit.as_nanos() as u64),
        Ordering::Relaxed,
    );
    let timer = Timer::start(limit);
    // SAFETY: gettid(2); `guarded` requires what the caller has promised.
    unsafe {
        RUNNER.store(libc::gettid(), Ordering::SeqCst);
        guarded(std::ptr::from_mut(argument).cast(), function);
    }
    RUNNER.store(0, Ordering::SeqCst);
    let why = WHY.load(Ordering::Relaxed);
    if why != 0 {
        // The thread-local data can still be the program's.
        turn::set_thread(thread);
        TOP.store(top, Ordering::Relaxed);
    }
    drop(timer);
    [Stopped::Fault, Stopped::Late, Stopped::Again, Stopped::Call]
        .into_iter()
        .find(|stopped| *stopped as u8 == why)
}

/// True if this thread runs such a function. To be called in a signal handler.
pub fn is_at_risk() -> bool {
    let runner = RUNNER.load(Ordering::Relaxed);
    // SAFETY: gettid(2) has no preconditions.
    runner != 0 && runner == unsafe { libc::gettid() }
}

/// Stops such a function, interrupted by this signal, if there is a reason.
///
/// To be called in the signal handler.
pub fn stop_if_due(context: &mut libc::ucontext_t) {
    if call::is_over() {
        stop(context, Stopped::Again);
    } else if now() >= DEADLINE.load(Ordering::Relaxed) {
        stop(context, Stopped::Late);
    }
}

/// Stops the function when the handler returns; returns false if no function can be stopped.
pub fn stop(context: &mut libc::ucontext_t, why: Stopped) -> bool {
    let can_be = escape_from(context);
    if can_be {
        WHY.store(why as u8, Ordering::Relaxed);
    }
    can_be
}

/// Ends such a function that has called MPI; serves as the handler of all slots.
pub extern "C" fn refuse() -> ! {
    WHY.store(Stopped::Call as u8, Ordering::Relaxed);
    // SAFETY: the caller runs inside of `guarded`.
    unsafe { escaped() }
}

fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: clock_gettime(2) initialises the structure.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Timer that sends [`call::INTERRUPT`] to this thread after the limit, until it is dropped.
struct Timer(i32);

impl Timer {
    fn start(limit: Duration) -> Timer {
        let time = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        let due = libc::itimerspec {
            it_value: time(limit),
            it_interval: time(LOOK_AGAIN),
        };
        let mut number = -1;
        // SAFETY: timer_create(2) reads the event and writes the number; timer_settime(2) reads the
        // times. Without a timer the program is not stopped.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = call::INTERRUPT;
            event.sigev_notify_thread_id = libc::gettid();
            libc::syscall(
                libc::SYS_timer_create,
                libc::CLOCK_MONOTONIC,
                &raw const event,
                &raw mut number,
            );
            libc::syscall(libc::SYS_timer_settime, number, 0, &raw const due, 0);
        }
        Timer(number)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: timer_delete(2) with the number of this timer.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}
