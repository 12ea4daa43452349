//! Fault injection for tests.
//!
//! Ranks die or wait at named points, at their n-th MPI call or after a time; replicas are damaged;
//! features of the kernel count as missing. An inactive fault point costs one load and a
//! predictable branch, an inactive call fault nothing.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use understudy_formats::events::{Kind, RecoveryStage};
use understudy_numbers::{Epoch, ProcessNumber};
use understudy_settings::fault::{Action, Fault, Where, Who};
pub use understudy_settings::fault::{Harm, Lack, Victim};
use understudy_settings::points;

struct State {
    /// Faults of this process.
    faults: Vec<Fault>,
    /// Number of passages of each fault point, if requested.
    passed: Option<Vec<AtomicU64>>,
}

static STATE: OnceLock<State> = OnceLock::new();
/// True if fault points are active.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Function that damages a replica which this process stores.
static DAMAGES: OnceLock<fn(Victim)> = OnceLock::new();
/// Function that re-initialises MPI.
static RENEW: OnceLock<fn()> = OnceLock::new();

/// Function that kills the process manager.
static KILL_MANAGER: OnceLock<fn()> = OnceLock::new();

/// Sets the functions that re-initialise MPI and that kill the process manager.
pub fn renew_by(renew: fn(), kill_manager: fn()) {
    let _ = (RENEW.set(renew), KILL_MANAGER.set(kill_manager));
}

fn faults() -> &'static [Fault] {
    STATE.get().map_or(&[], |state| &state.faults)
}

/// Sets the function that damages replicas.
pub fn damages_copies_by(damage: fn(Victim)) {
    let _ = DAMAGES.set(damage);
}

/// Number of MPI calls of this process, counted if a fault needs it ([`counts_calls`]).
pub static CALLS: AtomicU64 = AtomicU64::new(0);
/// Number of the next call for which [`call_is_due`] must be called.
pub static DUE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Selects the job's faults that concern this process, in a job of `workers` workers.
///
/// # Errors
/// The reason why a timer cannot be created.
pub fn set(mut faults: Vec<Fault>, process: ProcessNumber, workers: u32) -> Result<(), String> {
    let is_mine = |who: Who| match who {
        Who::Rank(number) => number == process.0,
        Who::Spare(number) => number.checked_add(workers) == Some(process.0),
    };
    faults.retain(|fault| !matches!(fault, Fault::Strike { who, .. } if !is_mine(*who)));
    let counts = || points::POINTS.iter().map(|_| AtomicU64::new(0)).collect();
    let passed = faults.contains(&Fault::Count).then(counts);
    for fault in &faults {
        if let Fault::Strike {
            at: Where::Time(time),
            ..
        } = fault
        {
            kill_after(*time)?;
        }
    }
    ACTIVE.store(!faults.is_empty(), Ordering::Relaxed);
    let _ = STATE.set(State { faults, passed });
    set_due(0);
    Ok(())
}

/// Makes the kernel kill this process after a time (timer_create(2)), without a waiting thread.
fn kill_after(time: Duration) -> Result<(), String> {
    let error = || format!("no timer can be had: {}", std::io::Error::last_os_error());
    // SAFETY: timer_create(2) and timer_settime(2) with structures of this frame.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
            return Err(error());
        }
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = time.as_secs() as i64;
        when.it_value.tv_nsec = i64::from(time.subsec_nanos()).max(1);
        if libc::timer_settime(timer, 0, &when, std::ptr::null_mut()) != 0 {
            return Err(error());
        }
    }
    Ok(())
}

/// True if this feature is to count as missing.
pub fn pretends(lack: Lack) -> bool {
    faults().contains(&Fault::Pretend(lack))
}

/// True if any fault is set in this process.
#[inline]
pub fn is_any() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Passes a fault point.
///
/// An inactive one costs one load and a predictable branch.
#[inline]
pub fn point(name: &str, epoch: Epoch) {
    if is_any() {
        reached(name, epoch);
    }
}

/// Passes the fault points between a recovery stage and the next.
pub fn stage_ended(stage: RecoveryStage, epoch: Epoch) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    reached(&format!("{}.end", stage.name()), epoch);
    let next = RecoveryStage::ALL
        .iter()
        .skip_while(|&&known| known != stage)
        .nth(1);
    if let Some(next) = next {
        reached(&format!("{}.begin", next.name()), epoch);
    }
}

#[cold]
fn reached(name: &str, epoch: Epoch) {
    let Some(here) = points::find(name) else {
        unreachable!("{name} is not in the table of fault points");
    };
    if let Some(passed) = STATE.get().and_then(|state| state.passed.as_ref()) {
        passed[here].fetch_add(1, Ordering::Relaxed);
    }
    for fault in faults() {
        if let Fault::Strike {
            at: Where::Point { point, epoch: due },
            delay,
            action,
            ..
        } = fault
            && *point == here
            && due.is_none_or(|due| due == epoch.0)
        {
            log::info!("a fault at {name}: {}", points::POINTS[here].moment);
            strike(*delay, *action);
        }
    }
}

fn strike(delay: Duration, action: Action) {
    std::thread::sleep(delay);
    match (action, DAMAGES.get()) {
        (Action::Kill, _) => {
            crate::events::emit(Kind::Kill {
                signal: libc::SIGKILL,
            });
            crate::sys::kill_self();
        }
        (Action::Renew, _) => {
            if let Some(renew) = RENEW.get() {
                renew();
            }
        }
        (Action::KillManager, _) => {
            static IS_DONE: AtomicBool = AtomicBool::new(false);
            if let Some(kill_manager) = KILL_MANAGER
                .get()
                .filter(|_| !IS_DONE.swap(true, Ordering::Relaxed))
            {
                kill_manager();
            }
        }
        (Action::Corrupt(victim), Some(damage)) => damage(victim),
        // No replica is stored yet.
        (Action::Corrupt(_), None) | (Action::Wait, _) => {}
    }
}

/// True if MPI calls must be counted; thunks then use the counting entry.
pub fn counts_calls() -> bool {
    STATE.get().is_some_and(|state| state.passed.is_some())
        || DUE.load(Ordering::Relaxed) != u64::MAX
}

/// Executes the faults of the current call.
///
/// Called on the program's stack, before the call is entered.
pub extern "C" fn call_is_due() {
    let now = CALLS.load(Ordering::Relaxed);
    for fault in faults() {
        if let Fault::Strike {
            at: Where::Call(call),
            delay,
            action,
            ..
        } = fault
            && *call == now
        {
            strike(*delay, *action);
        }
    }
    set_due(now);
}

/// Determines the next call after `now` that has a fault.
fn set_due(now: u64) {
    let calls = faults().iter().filter_map(|fault| match fault {
        Fault::Strike {
            at: Where::Call(call),
            ..
        } if *call > now => Some(*call),
        _ => None,
    });
    DUE.store(calls.min().unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Writes the counts to the event file if requested. Called at the rank's end.
pub fn report() {
    let Some(passed) = STATE.get().and_then(|state| state.passed.as_ref()) else {
        return;
    };
    let points = points::POINTS
        .iter()
        .zip(passed)
        .map(|(point, times)| (point.name.to_owned(), times.load(Ordering::Relaxed)));
    crate::events::emit(Kind::Passed {
        calls: CALLS.load(Ordering::Relaxed),
        points: points.collect(),
    });
}
