//! Real procedures that may never return once a process has failed.
//!
//! Open MPI 5.0 chooses context ids by messages of the leaders of two groups where these are not yet one, and does not
//! look whether such a message has failed: `MPI_Intercomm_create`, `MPI_Intercomm_merge`, `MPI_Comm_create_group`, and all
//! constructors on intercommunicators. Nothing in the process can end that wait, a revocation neither. If a process of
//! this node dies meanwhile and the wait goes on, the job is ended with a message instead of hanging.

use crate::{peers, sys};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long a constructor may go on after a death.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Number of the guarded call under way, 0: none.
static CALL: AtomicU64 = AtomicU64::new(0);
/// How many processes of this node had died when it began.
static DEAD_BEFORE: AtomicU64 = AtomicU64::new(0);
/// Descriptors of the other processes of this node.
static WATCHED: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Makes a call that may hang after a failure.
pub fn guard(call: impl FnOnce() -> c_int) -> c_int {
    guard_since(ended(), call)
}

/// The same, when so many processes of this node had ended ([`ended`]) before what leads to the call.
pub fn guard_since<T>(dead_before: u64, call: impl FnOnce() -> T) -> T {
    static START: Once = Once::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    // Others may have joined since the last call.
    *watched() = peers::local();
    START.call_once(|| {
        if let Err(error) = std::thread::Builder::new()
            .name("understudy-watchdog".into())
            .spawn(watch)
        {
            log::warn!("no watchdog: {error}");
        }
    });
    DEAD_BEFORE.store(dead_before, Ordering::Relaxed);
    CALL.store(COUNT.fetch_add(1, Ordering::Relaxed), Ordering::Release);
    let result = call();
    CALL.store(0, Ordering::Release);
    result
}

/// How many processes of this node have ended.
pub fn ended() -> u64 {
    count_ended(&peers::local())
}

fn count_ended(processes: &[c_int]) -> u64 {
    processes.iter().filter(|process| peers::has_ended(**process)).count() as u64
}

fn watched() -> MutexGuard<'static, Vec<c_int>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    let mut stuck: Option<(u64, Instant)> = None;
    loop {
        std::thread::sleep(LOOK_EVERY);
        let call = CALL.load(Ordering::Acquire);
        if call == 0 || count_ended(&watched()) <= DEAD_BEFORE.load(Ordering::Relaxed) {
            stuck = None;
            continue;
        }
        match stuck {
            Some((known, since)) if known == call && since.elapsed() > PATIENCE => give_up(),
            Some((known, _)) if known == call => {}
            _ => stuck = Some((call, Instant::now())),
        }
    }
}

fn give_up() -> ! {
    sys::say(format_args!(
        "a process died while others were making a communicator from two groups, which Open MPI does not survive; \
         the job cannot be recovered, start it again"
    ));
    peers::end_local();
    sys::exit_now(understudy_abi::exit::LOST)
}
