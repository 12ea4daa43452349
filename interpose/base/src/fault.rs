//! Faults on purpose: ranks that die or wait at named points, at their n-th MPI call or after a
//! time, copies that are damaged, and kernels that lack something. A fault point that is off costs
//! one load and a predictable branch, a call nothing.
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
    /// What this process is to meet.
    faults: Vec<Fault>,
    /// How often each fault point was passed, if that is asked for.
    passed: Option<Vec<AtomicU64>>,
}

static STATE: OnceLock<State> = OnceLock::new();
/// Whether fault points are looked at.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Who damages a copy that this process keeps.
static DAMAGES: OnceLock<fn(Victim)> = OnceLock::new();
/// Has MPI initialised anew.
static RENEW: OnceLock<fn()> = OnceLock::new();

/// Kills the process manager.
static KILL_MANAGER: OnceLock<fn()> = OnceLock::new();

/// What initialises MPI anew, and what kills the process manager, where that can be done.
pub fn renew_by(renew: fn(), kill_manager: fn()) {
    let _ = (RENEW.set(renew), KILL_MANAGER.set(kill_manager));
}

fn faults() -> &'static [Fault] {
    STATE.get().map_or(&[], |state| &state.faults)
}

/// From now on copies can be damaged, by this function.
pub fn damages_copies_by(damage: fn(Victim)) {
    let _ = DAMAGES.set(damage);
}

/// MPI calls of this process, counted if a fault needs it ([`counts_calls`]).
pub static CALLS: AtomicU64 = AtomicU64::new(0);
/// The call at which [`call_is_due`] is to be called.
pub static DUE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Keeps those of the job's faults that this process meets, in a job of `workers` workers.
///
/// # Errors
/// Why a timer cannot be had.
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

/// Has the kernel kill this process after a time (timer_create(2)); no thread waits for it.
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

/// Whether this is to be taken for missing.
pub fn pretends(lack: Lack) -> bool {
    faults().contains(&Fault::Pretend(lack))
}

/// Whether any fault is to happen in this process.
#[inline]
pub fn is_any() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// A fault point; one load and a predictable branch when nothing is set.
#[inline]
pub fn point(name: &str, epoch: Epoch) {
    if is_any() {
        reached(name, epoch);
    }
}

/// The end of a stage of a recovery, and with it the begin of the next.
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
        // Nothing is kept yet.
        (Action::Corrupt(_), None) | (Action::Wait, _) => {}
    }
}

/// Whether MPI calls are to be counted: thunks then enter by way of the counting entry.
pub fn counts_calls() -> bool {
    STATE.get().is_some_and(|state| state.passed.is_some())
        || DUE.load(Ordering::Relaxed) != u64::MAX
}

/// The call of which a fault speaks. Called on the program's stack, before the call is entered.
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

/// The next call after `now` at which something is due.
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

/// Writes the counts to the event file, if they are asked for. Called at the rank's end.
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
