//! The checkpoint watchdog: reports to the user that no checkpoint was possible for long.
//!
//! A cut point is a collective over all workers, and a program may have long phases without such a
//! collective. A failure would then cost the whole phase. Unless UNDERSTUDY_ANYWHERE=0, a cut at
//! any communication call is requested after `INTERVALS_BEFORE_REQUEST` intervals ([`work_flags`]).
//! After `INTERVALS_BEFORE_REPORT` intervals without a cut, one process of the node reports its
//! position.
//!
//! A thread polls the clock, so that the watchdog does not slow MPI calls down; the thread never
//! calls MPI. The position of the program follows from the frame of its last call, which stays on
//! the runtime's stack ([`arch`]). The frame is read through `/proc/self/mem`, since the program
//! runs meanwhile.

use crate::Runtime;
use crate::generated::{COLLECTIVE, Proc};
use crate::journal::address_names;
use crate::{arch, peers, process_info, reinit, schedule, system_calls, work_flags};
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
const INTERVALS_BEFORE_REPORT: u32 = 10;
/// Number of intervals without a cut after which a cut at any call is requested.
const INTERVALS_BEFORE_REQUEST: u32 = 3;
/// Maximum number of doublings of the time before the next request.
const MAX_DOUBLINGS: u32 = 4;
/// Minimum time before a report.
///
/// With short intervals, any delay of a machine would be reported otherwise.
const MIN_REPORT_TIME: Duration = Duration::from_secs(2);
/// Delay of a poll that shows that this process was stopped.
const MIN_STOP: Duration = Duration::from_secs(2);
/// Shortest and longest time between two polls of the clock.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Time since a cut.
#[derive(Clone)]
struct PhaseWithoutCut {
    began: Instant,
    /// Epoch that the cut began.
    epoch: Epoch,
    interval: Duration,
    /// Description of the process for the user.
    process_name: String,
    /// Number of cuts that were postponed in this phase.
    postponed_cuts: u32,
    /// True if a worker has refused a cut.
    is_refused: bool,
    /// True if this process was connected to spawned processes at a postponed cut.
    is_connected: bool,
    /// Time of the next request for a cut at any call, unless a cut precedes.
    request_at: Instant,
    /// Number of requests for a cut at any call that have failed.
    failures: u32,
}

static PHASE: Mutex<Option<PhaseWithoutCut>> = Mutex::new(None);
/// Notified when a phase begins.
static PHASE_BEGUN: Condvar = Condvar::new();

fn phase() -> MutexGuard<'static, Option<PhaseWithoutCut>> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a phase after a cut, in which this process is `worker`.
///
/// A cut at any call is requested sooner if the last cut was not at a collective cut point.
pub fn begin(rt: &Runtime, epoch: Epoch, worker: Worker, process: ProcessNumber) {
    static START: Once = Once::new();
    if !matches!(
        process_info::config().interval,
        Interval::Time(_) | Interval::Auto
    ) {
        return;
    }
    let interval = schedule::state(rt).pace.interval();
    let at_candidate = schedule::schedule(rt).at_candidate;
    let mut phase = phase();
    work_flags::clear(work_flags::CUT_REQUESTED);
    *phase = Some(PhaseWithoutCut {
        began: Instant::now(),
        epoch,
        interval,
        process_name: format!(
            "worker {worker} (rank {process} on {})",
            peers::host(process)
        ),
        postponed_cuts: 0,
        is_refused: false,
        is_connected: false,
        failures: 0,
        request_at: Instant::now() + interval * request_intervals(at_candidate),
    });
    PHASE_BEGUN.notify_one();
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
pub fn record_postponed_cut(is_connected: bool) {
    if let Some(phase) = &mut *phase() {
        phase.postponed_cuts += 1;
        phase.is_connected |= is_connected;
        // The reason may be a worker that is still inside of a collective, which the worker leaves
        // soon. So the next request follows early.
        phase.request_at =
            Instant::now() + phase.interval / 4 * (1 << phase.postponed_cuts.min(MAX_DOUBLINGS));
    }
}

/// Restarts the time without a cut, because a worker has refused a cut.
///
/// The user is notified of refusals by another message.
pub fn restart_after_refusal(at_candidate: bool) {
    if let Some(phase) = &mut *phase() {
        phase.began = Instant::now();
        phase.is_refused = true;
        phase.request_at = phase.began + phase.interval * request_intervals(at_candidate);
    }
}

/// Returns the number of intervals after which a cut at any call is requested.
fn request_intervals(at_candidate: bool) -> u32 {
    if at_candidate {
        INTERVALS_BEFORE_REQUEST
    } else {
        1
    }
}

/// Records that a cut at any call was impossible, and requests another one.
///
/// The request is made after `pause` at least.
///
/// The parameter `is_connected` is as in [`record_postponed_cut`].
pub fn request_later(is_connected: bool, pause: Duration) {
    if let Some(phase) = &mut *phase() {
        phase.is_connected |= is_connected;
        phase.request_at = Instant::now()
            + pause.max(phase.interval * (INTERVALS_BEFORE_REQUEST << phase.failures));
        phase.failures = (phase.failures + 1).min(MAX_DOUBLINGS);
    }
}

/// Suspends reports and requests for cuts until the next checkpoint.
///
/// The user has been notified of the reason.
pub fn suspend() {
    end();
    work_flags::clear(work_flags::CUT_REQUESTED);
}

/// Ends the phase, because no cut is taken until the next call of [`begin`].
pub fn end() {
    *phase() = None;
}

fn watch() {
    let mut reported_places: Vec<CallPlace> = Vec::new();
    // Beginning of the last phase that some process of the node has reported, and this process's
    // right to report, if it has the right.
    let mut reported: Option<(Instant, Option<UnixDatagram>)> = None;
    loop {
        // No phase exists during a recovery and after the last cut.
        let now = PHASE_BEGUN.wait_while(phase(), |phase| phase.is_none());
        let Some(phase) = now.unwrap_or_else(PoisonError::into_inner).clone() else {
            continue;
        };
        if omit_stop((phase.interval / 2).clamp(POLL_INTERVALS.0, POLL_INTERVALS.1)) {
            continue;
        }
        request_if_due();
        if reported
            .as_ref()
            .is_some_and(|(began, _)| *began == phase.began)
        {
            continue;
        }
        reported = None;
        if phase.lasts(1) {
            let place = CallPlace::now();
            // The other workers have come or will come to MPI_Finalize, too.
            if place.procedure == Some(Proc::MPI_Finalize) {
                continue;
            }
            let is_away = work_flags::is_set(work_flags::CUT_REQUESTED) && !call::is_inside();
            // A process that waits for other processes lets these report first.
            let waits = if process_info::config().anywhere {
                !is_away
            } else {
                place.is_collective()
            };
            if waits && !phase.lasts(2) {
                continue;
            }
            let right = acquire_report_right(phase.epoch);
            if right.is_some() && !reported_places.contains(&place) {
                report(&phase, place, is_away);
                reported_places.push(place);
            }
            reported = Some((phase.began, right));
        }
    }
}

/// Sleeps for a time; begins the phase anew if this process was stopped meanwhile.
///
/// The program could make no call while it was stopped, with its host for example. Returns true if
/// it was stopped.
fn omit_stop(pause: Duration) -> bool {
    let began = Instant::now();
    std::thread::sleep(pause);
    let was_stopped = began.elapsed() >= pause + MIN_STOP;
    if was_stopped && let Some(phase) = &mut *phase() {
        phase.began = Instant::now();
    }
    was_stopped
}

/// Requests a cut at any call if it is time.
fn request_if_due() {
    if process_info::config().anywhere
        && let Some(phase) = &mut *phase()
        && (Instant::now() >= phase.request_at
            || (!phase.is_refused && reinit::order_to_leave().is_some()))
    {
        phase.request_at = Instant::now() + phase.interval * INTERVALS_BEFORE_REQUEST;
        work_flags::set(work_flags::CUT_REQUESTED);
    }
}

impl PhaseWithoutCut {
    /// True if the phase has lasted `times` times as long as it may.
    fn lasts(&self, times: u32) -> bool {
        self.began.elapsed()
            >= self
                .interval
                .saturating_mul(INTERVALS_BEFORE_REPORT)
                .max(MIN_REPORT_TIME)
                .saturating_mul(times)
    }
}

/// Acquires the right to report a phase, which one process of the node can have.
///
/// The right is an abstract socket (unix(7)), whose name is unique on the node.
fn acquire_report_right(epoch: Epoch) -> Option<UnixDatagram> {
    let name = format!("understudy-overdue-{}-{epoch}", process_info::job());
    let address = SocketAddr::from_abstract_name(name).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

/// Reports a phase to the user.
///
/// `is_away` is true if a cut at any call was requested, and the program has made no call since
/// the request.
fn report(phase: &PhaseWithoutCut, place: CallPlace, is_away: bool) {
    let PhaseWithoutCut {
        epoch,
        process_name: who,
        ..
    } = phase;
    let is_anywhere = process_info::config().anywhere;
    let why = match phase.postponed_cuts {
        _ if phase.is_connected => {
            format!("{who} is connected to processes that the program has spawned; {place}")
        }
        0 if is_away => {
            format!(
                "{who} has made no communication call for a long time; {place}. A checkpoint \
                 needs a communication call on every worker"
            )
        }
        0 if is_anywhere => {
            format!("the workers have not agreed on an MPI call for a checkpoint; {who}: {place}")
        }
        0 => {
            format!(
                "{who} has made no collective call over all workers, which a checkpoint needs; \
                 {place}"
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
    system_calls::print_message(message::no_checkpoint(
        system_calls::with_exceptions_masked(|| phase.began.elapsed().as_secs_f64()),
        INTERVALS_BEFORE_REPORT,
        why,
        epoch,
        remedy,
    ));
}

/// Place of the program's last MPI call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CallPlace {
    procedure: Option<Proc>,
    /// Return address; 0 if it cannot be read.
    address: u64,
}

impl CallPlace {
    fn now() -> CallPlace {
        let memory = File::open("/proc/self/mem").ok();
        let word = |address: u64| {
            let mut bytes = [0; 8];
            let read = memory.as_ref()?.read_exact_at(&mut bytes, address);
            read.ok().map(|()| u64::from_ne_bytes(bytes))
        };
        let [slot, stack, base] = arch::addresses_of_last_call().map(word);
        let address = match stack.and_then(word) {
            Some(address) if arch::mpi_lock::is_lock_release(address) => {
                base.and_then(|base| word(base + 8))
            }
            address => address,
        };
        CallPlace {
            procedure: slot.and_then(|slot| Proc::from_slot(u32::try_from(slot).ok()?)),
            address: address.unwrap_or(0),
        }
    }

    fn is_collective(self) -> bool {
        self.procedure
            .is_some_and(|procedure| COLLECTIVE[procedure as usize])
    }
}

impl std::fmt::Display for CallPlace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(procedure) = self.procedure else {
            return out.write_str("its last MPI call is unknown");
        };
        write!(out, "its last MPI call is {}", procedure.name())?;
        match address_names::names(&[self.address]).first() {
            // An address outside of all mapped files gets no name. A name in `[stack]` is not that
            // of a return address: the call has returned, and its place on the stack was reused.
            Some(name) if name.ends_with(')') && !name.ends_with("])") => write!(out, " at {name}"),
            _ => Ok(()),
        }
    }
}
