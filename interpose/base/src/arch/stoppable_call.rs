//! Calls of program functions that may fault, or may not return.
//!
//! A signal handler can stop such a function at any point; then [`call_stoppable`] returns. The
//! signal is that of a fault, or [`call::INTERRUPT`], which a recovery or a timer sends.
#![allow(unsafe_code)]

use super::frame::TOP;
use super::guard::{end_guarded_call, escape_from, guarded};
use super::mpi_lock;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use understudy_mpi::call;

/// Reason for which a function was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    Fault = 1,
    /// The function exceeded its time limit.
    TimeLimit,
    /// All processes restart from the checkpoint, usually because another process has failed.
    Restart,
    /// The function has called MPI, or attempted to end the program.
    Call,
}

/// Number (gettid(2)) of the thread that runs a stoppable function, or 0.
static RUNNER: AtomicI32 = AtomicI32::new(0);
/// Time at which the function must be stopped, in nanoseconds of CLOCK_MONOTONIC.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
/// Reason ([`StopReason`]) for which the function was stopped, or 0.
static STOP_REASON: AtomicU8 = AtomicU8::new(0);

/// Interval between signals after the time limit.
///
/// The signal is repeated because the first one may arrive outside of `guarded`, where no function
/// can be stopped.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Calls `function(argument)`, which may call the program, on the runtime's stack.
///
/// Returns `None` if the function has returned, or the reason for which it was stopped.
///
/// # Safety
/// While `function` calls the program, the frames of `function` must contain nothing to drop. The
/// program must tolerate being stopped at any point.
pub unsafe fn call_stoppable<T>(
    limit: Duration,
    argument: &mut T,
    function: unsafe extern "C" fn(*mut c_void),
) -> Option<StopReason> {
    let (top, thread) = (TOP.load(Ordering::Relaxed), mpi_lock::main_block());
    STOP_REASON.store(0, Ordering::Relaxed);
    DEADLINE.store(
        now().saturating_add(limit.as_nanos() as u64),
        Ordering::Relaxed,
    );
    let timer = StopTimer::start(limit);
    // SAFETY: gettid(2); `guarded` requires a function that may be stopped at any point, which the
    // caller guarantees.
    unsafe {
        RUNNER.store(libc::gettid(), Ordering::SeqCst);
        guarded(std::ptr::from_mut(argument).cast(), function);
    }
    RUNNER.store(0, Ordering::SeqCst);
    let reason = STOP_REASON.load(Ordering::Relaxed);
    if reason != 0 {
        // The function may have been stopped while it had the control block of a thread of the
        // program, and while a callback had lowered TOP.
        mpi_lock::set_thread(thread);
        TOP.store(top, Ordering::Relaxed);
    }
    drop(timer);
    [
        StopReason::Fault,
        StopReason::TimeLimit,
        StopReason::Restart,
        StopReason::Call,
    ]
    .into_iter()
    .find(|known| *known as u8 == reason)
}

/// True if this thread runs a stoppable function. To be called in a signal handler.
pub fn is_stoppable() -> bool {
    let runner = RUNNER.load(Ordering::Relaxed);
    // SAFETY: gettid(2) has no preconditions.
    runner != 0 && runner == unsafe { libc::gettid() }
}

/// Stops the interrupted function if its time limit has passed or a recovery has begun.
///
/// To be called in the handler of [`call::INTERRUPT`].
pub fn stop_if_due(context: &mut libc::ucontext_t) {
    if call::is_over() {
        stop(context, StopReason::Restart);
    } else if now() >= DEADLINE.load(Ordering::Relaxed) {
        stop(context, StopReason::TimeLimit);
    }
}

/// Stops the function when the signal handler returns; returns false if no function is running.
pub fn stop(context: &mut libc::ucontext_t, reason: StopReason) -> bool {
    let is_guarded = escape_from(context);
    if is_guarded {
        STOP_REASON.store(reason as u8, Ordering::Relaxed);
    }
    is_guarded
}

/// Stops a function that has called MPI. Serves as the handler of all slots while a stoppable
/// function runs.
pub extern "C" fn stop_at_mpi_call() -> ! {
    STOP_REASON.store(StopReason::Call as u8, Ordering::Relaxed);
    // SAFETY: this function is the handler of MPI calls only while `guarded` runs the program.
    unsafe { end_guarded_call() }
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

/// Timer that sends [`call::INTERRUPT`] to this thread when the time limit has passed.
///
/// The signal is sent again after each [`SIGNAL_INTERVAL`], until the timer is dropped.
struct StopTimer(i32);

impl StopTimer {
    fn start(limit: Duration) -> StopTimer {
        let time = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        let due = libc::itimerspec {
            it_value: time(limit),
            it_interval: time(SIGNAL_INTERVAL),
        };
        let mut number = -1;
        // SAFETY: timer_create(2) reads the event and writes the number; timer_settime(2) reads the
        // times. Without a timer the program is not stopped at its time limit.
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
        StopTimer(number)
    }
}

impl Drop for StopTimer {
    fn drop(&mut self) {
        // SAFETY: timer_delete(2) with the number of this timer.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}
