//! Fault injection for tests.
//!
//! Most faults act on a rank at a named point, at its n-th MPI call, or after a time: they kill or
//! delay the rank, damage a replica, re-initialise MPI, or kill the node manager. Other faults make
//! a feature of the kernel count as missing, stand for a network device or for a defect, delay the
//! end of the job, or count passed points. If no fault is set, a point costs one load and a
//! predictable branch, and an MPI call costs nothing.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use understudy_formats::events::{Kind, RecoveryStage};
use understudy_numbers::{Epoch, ProcessNumber};
use understudy_settings::fault::{Action, Fault, FaultPosition, FaultTarget};
pub use understudy_settings::fault::{Damage, MissingFeature, Victim};
use understudy_settings::points;

struct FaultState {
    /// Faults of this process.
    faults: Vec<Fault>,
    /// Number of times that each fault point was passed, if counting is requested.
    passed: Option<Vec<AtomicU64>>,
}

static STATE: OnceLock<FaultState> = OnceLock::new();
/// True if any fault is set in this process.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Function that damages a replica which this process stores.
static DAMAGE_REPLICA: OnceLock<fn(Victim)> = OnceLock::new();
/// Function that re-initialises MPI.
static REINIT_MPI: OnceLock<fn()> = OnceLock::new();

/// Function that kills the node manager.
static KILL_MANAGER: OnceLock<fn()> = OnceLock::new();

/// Sets the functions that re-initialise MPI and that kill the node manager.
pub fn set_reinit(reinit_mpi: fn(), kill_manager: fn()) {
    let _ = (REINIT_MPI.set(reinit_mpi), KILL_MANAGER.set(kill_manager));
}

fn faults() -> &'static [Fault] {
    STATE.get().map_or(&[], |state| &state.faults)
}

/// Sets the function that damages replicas.
pub fn set_damage(damage: fn(Victim)) {
    let _ = DAMAGE_REPLICA.set(damage);
}

/// Number of MPI calls of this process; calls are counted only if [`must_count_calls`] is true.
pub static CALLS: AtomicU64 = AtomicU64::new(0);
/// Number of the next call for which [`strike_at_call`] must be called.
pub static NEXT_FAULT_CALL: AtomicU64 = AtomicU64::new(u64::MAX);

/// Selects the job's faults that concern this process, in a job of `workers` workers.
///
/// # Errors
/// Fails if a timer cannot be created; the error is the reason.
pub fn set(mut faults: Vec<Fault>, process: ProcessNumber, workers: u32) -> Result<(), String> {
    // Spares have the numbers after those of the workers.
    let is_this_process = |target: FaultTarget| match target {
        FaultTarget::Rank(number) => number == process.0,
        FaultTarget::Spare(number) => number.checked_add(workers) == Some(process.0),
    };
    faults.retain(
        |fault| !matches!(fault, Fault::Strike { target, .. } if !is_this_process(*target)),
    );
    let counts = || points::POINTS.iter().map(|_| AtomicU64::new(0)).collect();
    let passed = faults.contains(&Fault::Count).then(counts);
    for fault in &faults {
        if let Fault::Strike {
            at: FaultPosition::Time(time),
            ..
        } = fault
        {
            kill_after(*time)?;
        }
    }
    ACTIVE.store(!faults.is_empty(), Ordering::Relaxed);
    let _ = STATE.set(FaultState { faults, passed });
    set_next_fault_call(0);
    Ok(())
}

/// Makes the kernel kill this process after a time (timer_create(2)), without a waiting thread.
fn kill_after(time: Duration) -> Result<(), String> {
    let error = || format!("no timer is available: {}", std::io::Error::last_os_error());
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

/// True if a fault makes this feature count as missing.
pub fn is_missing(feature: MissingFeature) -> bool {
    faults().contains(&Fault::Pretend(feature))
}

/// True if a fault hides the MPI library's writes from the kernel's tracking.
pub fn is_blind() -> bool {
    faults().contains(&Fault::Blind)
}

/// True if a fault makes the runtime lose landings.
pub fn loses_landings() -> bool {
    faults().contains(&Fault::LoseLandings)
}

/// Returns whether the workers may leave MPI_Finalize; `None` if no fault delays the end.
///
/// A fault of this kind concerns all workers, so either all workers receive `None`, or none does.
pub fn may_end() -> Option<bool> {
    faults().iter().find_map(|fault| match fault {
        Fault::DelayEnd { until } => Some(until.exists()),
        _ => None,
    })
}

/// True if any fault is set in this process.
#[inline]
pub fn is_any() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Executes the faults at a named point of `epoch`.
#[inline]
pub fn point(name: &str, epoch: Epoch) {
    if is_any() {
        pass_point(name, epoch);
    }
}

/// Executes the faults between a recovery stage and the next one.
pub fn stage_ended(stage: RecoveryStage, epoch: Epoch) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    pass_point(&format!("{}.end", stage.name()), epoch);
    let next = RecoveryStage::ALL
        .iter()
        .skip_while(|&&earlier| earlier != stage)
        .nth(1);
    if let Some(next) = next {
        pass_point(&format!("{}.begin", next.name()), epoch);
    }
}

#[cold]
fn pass_point(name: &str, epoch: Epoch) {
    let Some(index) = points::find(name) else {
        unreachable!("{name} is not in the table of fault points");
    };
    if let Some(passed) = STATE.get().and_then(|state| state.passed.as_ref()) {
        passed[index].fetch_add(1, Ordering::Relaxed);
    }
    for fault in faults() {
        if let Fault::Strike {
            at:
                FaultPosition::Point {
                    point,
                    epoch: fault_epoch,
                },
            delay,
            action,
            ..
        } = fault
            && *point == index
            && fault_epoch.is_none_or(|fault_epoch| fault_epoch == epoch.0)
        {
            log::info!("a fault at {name}: {}", points::POINTS[index].moment);
            strike(*delay, *action);
        }
    }
}

fn strike(delay: Duration, action: Action) {
    std::thread::sleep(delay);
    match (action, DAMAGE_REPLICA.get()) {
        (Action::Kill, _) => {
            crate::events::emit(Kind::Kill {
                signal: libc::SIGKILL,
            });
            crate::system_calls::kill_self();
        }
        (Action::Reinit, _) => {
            if let Some(reinit_mpi) = REINIT_MPI.get() {
                reinit_mpi();
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
pub fn must_count_calls() -> bool {
    STATE.get().is_some_and(|state| state.passed.is_some())
        || NEXT_FAULT_CALL.load(Ordering::Relaxed) != u64::MAX
}

/// Executes the faults of the current call.
///
/// Called on the program's stack, before the runtime is entered.
pub extern "C" fn strike_at_call() {
    let now = CALLS.load(Ordering::Relaxed);
    for fault in faults() {
        if let Fault::Strike {
            at: FaultPosition::Call(call),
            delay,
            action,
            ..
        } = fault
            && *call == now
        {
            strike(*delay, *action);
        }
    }
    set_next_fault_call(now);
}

/// Sets [`NEXT_FAULT_CALL`] to the first call after `now` that has a fault.
fn set_next_fault_call(now: u64) {
    let calls = faults().iter().filter_map(|fault| match fault {
        Fault::Strike {
            at: FaultPosition::Call(call),
            ..
        } if *call > now => Some(*call),
        _ => None,
    });
    NEXT_FAULT_CALL.store(calls.min().unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Writes the counts to the event file if counting is requested. Called at the end of the rank.
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
