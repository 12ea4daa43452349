//! The checkpoint watchdog: reports to the user that no checkpoint was possible for long.
//!
//! A cut point is a collective over all workers, and a program may have phases without any. A
//! failure would then cost the whole phase. Unless UNDERSTUDY_ANYWHERE=0, a cut at any
//! communication call is requested after [`BEFORE_ASKING`] intervals ([`attention`]). After
//! [`INTERVALS`] intervals without a cut, one process of the node reports its position.
//!
//! A thread polls the clock, so that MPI calls cost nothing; the thread never calls MPI. The
//! position of the program follows from the frame of its last call, which stays on the runtime's
//! stack ([`arch`]). The frame is read through `/proc/self/mem`, since the program runs meanwhile.

use crate::Runtime;
use crate::generated::{COLLECTIVE, Proc};
use crate::journal::address_names;
use crate::{arch, attention, peers, schedule, sys, told};
use std::fs::File;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_mpi::call;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_settings::Interval;

/// Number of intervals without a cut after which the user is notified.
const INTERVALS: u32 = 10;
/// Number of intervals without a cut after which one is requested at any call.
const BEFORE_ASKING: u32 = 3;
/// Maximum number of doublings of the time.
const MOST_FAILURES: u32 = 4;
/// Minimum time before a report.
///
/// With short intervals, any delay of a machine would be reported otherwise.
const LEAST: Duration = Duration::from_secs(2);
/// Shortest and longest time between two polls of the clock.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Time since a cut.
#[derive(Clone)]
struct Phase {
    began: Instant,
    /// Epoch that the cut began.
    epoch: Epoch,
    interval: Duration,
    /// Description of the process for the user.
    who: String,
    /// Number of cuts that were postponed since.
    put_off: u32,
    /// True if this process was connected to spawned processes at such a cut.
    is_connected: bool,
    /// Time at which a cut at any call is requested, unless another cut comes before.
    asks: Instant,
    /// Number of failed requests.
    failures: u32,
}

static PHASE: Mutex<Option<Phase>> = Mutex::new(None);
/// Notified when a phase begins.
static BEGUN: Condvar = Condvar::new();

fn phase() -> MutexGuard<'static, Option<Phase>> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a phase after a cut, in which this process is `worker`.
///
/// If the last cut was not at a cut point, a cut at any call is requested sooner.
pub fn begin(rt: &Runtime, epoch: Epoch, worker: Worker, process: ProcessNumber) {
    static START: Once = Once::new();
    if !matches!(told::config().interval, Interval::Time(_) | Interval::Auto) {
        return;
    }
    let interval = schedule::state(rt).pace.interval();
    let at_candidate = schedule::schedule(rt).at_candidate;
    let mut phase = phase();
    attention::clear(attention::ASKED);
    *phase = Some(Phase {
        began: Instant::now(),
        epoch,
        interval,
        who: format!(
            "worker {worker} (rank {process} on {})",
            peers::host(process)
        ),
        put_off: 0,
        is_connected: false,
        failures: 0,
        asks: Instant::now() + interval * request_intervals(at_candidate),
    });
    BEGUN.notify_one();
    drop(phase);
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("understudy-overdue".into());
        if let Err(error) = thread.spawn(watch) {
            log::info!("phases without checkpoints are not reported: {error}");
        }
    });
}

/// Records that an agreed cut could not be taken.
///
/// `is_connected` is true if the reason is a connection to spawned processes.
pub fn put_off(is_connected: bool) {
    if let Some(phase) = &mut *phase() {
        phase.put_off += 1;
        phase.is_connected |= is_connected;
        // A worker that was behind in a collective will leave it soon.
        phase.asks = Instant::now() + phase.interval / 4 * (1 << phase.put_off.min(MOST_FAILURES));
    }
}

/// Restarts the time after a cut that a worker has refused.
///
/// Another message reports refusals.
pub fn refused(at_candidate: bool) {
    if let Some(phase) = &mut *phase() {
        phase.began = Instant::now();
        phase.asks = phase.began + phase.interval * request_intervals(at_candidate);
    }
}

/// Returns the number of intervals after which a cut at any call is requested.
fn request_intervals(at_candidate: bool) -> u32 {
    if at_candidate { BEFORE_ASKING } else { 1 }
}

/// Records that a cut at any call was impossible, and requests another one.
///
/// The request is made after `pause` at least.
///
/// The parameter `is_connected` is as in [`put_off`].
pub fn ask_again(is_connected: bool, pause: Duration) {
    if let Some(phase) = &mut *phase() {
        phase.is_connected |= is_connected;
        phase.asks = Instant::now() + pause.max(phase.interval * (BEFORE_ASKING << phase.failures));
        phase.failures = (phase.failures + 1).min(MOST_FAILURES);
    }
}

/// Suspends reports and requests for cuts until the next checkpoint.
///
/// The user has been notified of the reason.
pub fn suspend() {
    end();
    attention::clear(attention::ASKED);
}

/// Ends the phase, because no more cuts will be taken.
pub fn end() {
    *phase() = None;
}

fn watch() {
    let mut said: Vec<Place> = Vec::new();
    // Begin of the reported phase, and the socket of the reporting process.
    let mut told: Option<(Instant, Option<UnixDatagram>)> = None;
    loop {
        // No phase exists during a recovery and after the last cut.
        let now = BEGUN.wait_while(phase(), |phase| phase.is_none());
        let Some(phase) = now.unwrap_or_else(PoisonError::into_inner).clone() else {
            continue;
        };
        std::thread::sleep((phase.interval / 2).clamp(LOOK_EVERY.0, LOOK_EVERY.1));
        ask();
        if told
            .as_ref()
            .is_some_and(|(began, _)| *began == phase.began)
        {
            continue;
        }
        told = None;
        if phase.lasts(1) {
            let place = Place::now();
            let is_away = attention::is(attention::ASKED) && !call::is_inside();
            // A process that waits for others lets them report first.
            let waits = if told::config().anywhere {
                !is_away
            } else {
                place.is_collective()
            };
            if waits && !phase.lasts(2) {
                continue;
            }
            let word = take_word(phase.epoch);
            if word.is_some() && !said.contains(&place) {
                say(&phase, place, is_away);
                said.push(place);
            }
            told = Some((phase.began, word));
        }
    }
}

/// Requests a cut at any call if it is time.
fn ask() {
    if told::config().anywhere
        && let Some(phase) = &mut *phase()
        && Instant::now() >= phase.asks
    {
        phase.asks = Instant::now() + phase.interval * BEFORE_ASKING;
        attention::set(attention::ASKED);
    }
}

impl Phase {
    /// True if the phase has lasted `times` times as long as it may.
    fn lasts(&self, times: u32) -> bool {
        self.began.elapsed()
            >= self
                .interval
                .saturating_mul(INTERVALS)
                .max(LEAST)
                .saturating_mul(times)
    }
}

/// Acquires the right to report a phase, which one process of the node can have.
///
/// It is an abstract socket (unix(7)), whose name is unique on the node.
fn take_word(epoch: Epoch) -> Option<UnixDatagram> {
    let name = format!("understudy-overdue-{}-{epoch}", told::job());
    let address = SocketAddr::from_abstract_name(name).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

/// Reports a phase to the user.
///
/// `is_away` is true if a cut at any call was requested, and the program has made no call since.
fn say(phase: &Phase, place: Place, is_away: bool) {
    let Phase { epoch, who, .. } = phase;
    let is_anywhere = told::config().anywhere;
    let why = match phase.put_off {
        _ if phase.is_connected => {
            format!("{who} is connected to processes that the program has spawned; {place}")
        }
        0 if is_away => {
            format!(
                "{who} has made no communication call for a long time; {place}. A checkpoint needs a \
                 communication call on every worker"
            )
        }
        0 if is_anywhere => {
            format!("the workers have not agreed on an MPI call for a checkpoint; {who}: {place}")
        }
        0 => {
            format!(
                "{who} has made no collective call over all workers, which a checkpoint needs; {place}"
            )
        }
        times => format!(
            "the checkpoint was postponed {times} times because of a pending non-blocking \
             collective, of a library that was being opened, or of connected spawned processes; \
             {who}: {place}"
        ),
    };
    let remedy = if phase.is_connected {
        "MPI_Comm_disconnect instead of MPI_Comm_free would allow checkpoints again"
    } else if is_away {
        "a call such as MPI_Iprobe from time to time in this phase would allow checkpoints"
    } else {
        "MPI_Barrier(MPI_COMM_WORLD) from time to time in this phase would allow checkpoints"
    };
    sys::say(message::no_checkpoint(
        sys::quietly(|| phase.began.elapsed().as_secs_f64()),
        INTERVALS,
        why,
        epoch,
        remedy,
    ));
}

/// Place of the program's last MPI call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    procedure: Option<Proc>,
    /// Return address; 0 if it cannot be read.
    address: u64,
}

impl Place {
    fn now() -> Place {
        let memory = File::open("/proc/self/mem").ok();
        let word = |address: u64| {
            let mut bytes = [0; 8];
            let read = memory.as_ref()?.read_exact_at(&mut bytes, address);
            read.ok().map(|()| u64::from_ne_bytes(bytes))
        };
        let [slot, stack, base] = arch::addresses_of_last_call().map(word);
        let address = match stack.and_then(word) {
            Some(address) if arch::turn::is_return(address) => base.and_then(|base| word(base + 8)),
            address => address,
        };
        Place {
            procedure: slot.and_then(|slot| Proc::from_slot(u32::try_from(slot).ok()?)),
            address: address.unwrap_or(0),
        }
    }

    fn is_collective(self) -> bool {
        self.procedure
            .is_some_and(|procedure| COLLECTIVE[procedure as usize])
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(procedure) = self.procedure else {
            return out.write_str("its last MPI call is unknown");
        };
        write!(out, "its last MPI call is {}", procedure.name())?;
        match address_names::names(&[self.address]).first() {
            // An address outside of all files has no name. After the return of the call, a name on
            // the stack (`[stack]`) is not that of a return address.
            Some(name) if name.ends_with(')') && !name.ends_with("])") => write!(out, " at {name}"),
            _ => Ok(()),
        }
    }
}
