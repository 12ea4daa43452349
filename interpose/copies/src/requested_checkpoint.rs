//! Requests for a checkpoint on disk, by signals (`UNDERSTUDY_CHECKPOINT_ON`) or the time limit.
//!
//! ```text
//!   signal at any process ─► leader ─► page of each process ─┐
//!   signal at this process ─► handler (request_signals) ─────┤
//!   time limit ──────────────────────────────────────────────┴─► pending ─► next cut
//! ```
//!
//! A thread receives requests, so that MPI calls are not slowed down; the thread never calls MPI.
//! While a request is pending, a cut is due at every vote, and a cut at any call is requested.
//! Workers agree at the cut on the request, wait for the files of all workers, and stop or
//! continue (`cut::requested` in the runtime). If a stop is late, the thread ends the job with the
//! last checkpoint that is complete on disk.

use crate::{disk, process_info, reinit, request_signals, system_calls, work_flags};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use understudy_catalogue::{exit_status, message};
use understudy_image::threads::with_signals_blocked;
use understudy_settings::{CheckpointCause, Config, REPETITION_TIME, Restart, TimeLimit};

/// Time between two polls for requests.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two requests for a cut at any call.
const CUT_REQUEST_INTERVAL: Duration = Duration::from_millis(250);
/// Time before the time limit, besides twice the time to write a checkpoint.
const LIMIT_MARGIN: Duration = Duration::from_secs(10);
/// Longest time before the time limit at which an older checkpoint counts.
const MAX_LIMIT_GRACE_END: Duration = Duration::from_secs(1);
/// Delay of all processes but one, which reports why the job ends.
const REPORT_DELAY: Duration = Duration::from_millis(500);

/// Request that has not been fulfilled.
#[derive(Clone, Copy)]
struct PendingRequest {
    cause: CheckpointCause,
    since: Instant,
    /// Time at which an older checkpoint counts; `None` if the job continues in any case.
    deadline: Option<Instant>,
}

/// End of the granted time.
#[derive(Clone, Copy)]
struct GrantedTime {
    begin: Instant,
    end: Instant,
}

impl GrantedTime {
    /// Returns the time that is left when the last checkpoint must be requested.
    ///
    /// A short limit leaves half of its time to the program.
    fn margin(self, time_to_disk: Duration) -> Duration {
        (time_to_disk * 2 + LIMIT_MARGIN).min((self.end - self.begin) / 2)
    }

    /// Returns the time that is left when an older checkpoint counts.
    fn grace_end(self) -> Duration {
        ((self.end - self.begin) / 8).min(MAX_LIMIT_GRACE_END)
    }
}

/// Requests to this process.
struct Requests {
    /// True if this process is a worker. Spares only pass signals to their manager.
    is_worker: bool,
    pending: Option<PendingRequest>,
    /// Last number of the page that was read.
    page_number: u64,
    /// Time of the last cut that has fulfilled a request.
    fulfilled: Option<Instant>,
    granted: Option<GrantedTime>,
}

static REQUESTS: Mutex<Requests> = Mutex::new(Requests {
    is_worker: false,
    pending: None,
    page_number: 0,
    fulfilled: None,
    granted: None,
});

fn requests() -> MutexGuard<'static, Requests> {
    REQUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if the settings allow requests.
fn is_configured(config: &Config) -> bool {
    config.checkpoint_on.is_some() || config.time_limit.is_some()
}

/// Starts to receive requests, in a process that has not connected to its manager yet.
pub fn start(is_worker: bool) {
    static START: Once = Once::new();
    let config = process_info::config();
    if !is_configured(config) {
        return;
    }
    let now = Instant::now();
    let left = match config.time_limit {
        None | Some(TimeLimit::Auto) => None,
        Some(TimeLimit::After(time)) => Some(time),
        Some(TimeLimit::At(end)) => Some(end.duration_since(SystemTime::now()).unwrap_or_default()),
    };
    let mut requests = requests();
    requests.is_worker = is_worker;
    requests.granted = left.map(|left| GrantedTime {
        begin: now,
        end: now + left,
    });
    drop(requests);
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("understudy-request".into());
        if let Err(error) = with_signals_blocked(|| thread.spawn(watch)) {
            log::warn!("{}", message::requests_not_received(error));
        }
    });
}

/// Records that this process is a worker, which has taken a cut.
pub fn record_worker() {
    if is_configured(process_info::config()) {
        requests().is_worker = true;
    }
}

/// Returns the cause of the pending request.
#[inline]
pub fn pending() -> Option<CheckpointCause> {
    match is_configured(process_info::config()) {
        true => requests().pending.map(|pending| pending.cause),
        false => None,
    }
}

/// Records that the checkpoint of the cut at this time is on disk.
pub fn fulfil(cut: Instant) {
    let requests = &mut *requests();
    requests.pending.take_if(|pending| pending.since <= cut);
    requests.fulfilled = Some(cut);
}

/// Ends requests, because no checkpoint follows: signals have their default actions.
pub fn end() {
    if is_configured(process_info::config()) {
        request_signals::end();
        requests().pending = None;
    }
}

/// Returns the option with which the same command continues from disk.
pub fn restart_option() -> &'static str {
    match process_info::config().restart {
        Restart::Never => "--restart (or --restart=auto from the beginning on)",
        Restart::Always | Restart::Auto => "--restart or --restart=auto",
    }
}

fn watch() {
    let mut cut_requested: Option<Instant> = None;
    loop {
        std::thread::sleep(POLL_INTERVAL);
        if !reinit::is_connected() {
            continue;
        }
        let now = Instant::now();
        if request_signals::has_ended() {
            pass_back(&mut requests());
            continue;
        }
        let Some(pending) = receive(&mut requests(), now) else {
            continue;
        };
        if pending.deadline.is_some_and(|deadline| now >= deadline) {
            end_without_checkpoint(pending.cause);
        }
        if process_info::config().anywhere
            && cut_requested.is_none_or(|at| now - at >= CUT_REQUEST_INTERVAL)
        {
            cut_requested = Some(now);
            work_flags::set(work_flags::CUT_REQUESTED);
        }
    }
}

/// Raises a signal that was recorded as a request after the end of all checkpoints.
fn pass_back(requests: &mut Requests) {
    if let Some(request) = take_page_request(requests)
        && CheckpointCause::Signal(request).stops()
    {
        system_calls::signal_own_process(request);
    }
}

/// Returns the signal of a request in the page that was not read before.
fn take_page_request(requests: &mut Requests) -> Option<i32> {
    let request = reinit::checkpoint_request()?;
    let is_new = std::mem::replace(&mut requests.page_number, request.number()) != request.number();
    is_new.then_some(request.signal)
}

/// Receives requests, and returns the pending one.
fn receive(requests: &mut Requests, now: Instant) -> Option<PendingRequest> {
    if let Some(cause @ CheckpointCause::Signal(signal)) = request_signals::take() {
        reinit::request_checkpoint(signal);
        accept(requests, cause, now);
    }
    if let Some(signal) = take_page_request(requests) {
        accept(requests, CheckpointCause::Signal(signal), now);
    }
    if let Some(granted) = requests.granted
        && now + granted.margin(disk::time_to_disk()) >= granted.end
    {
        accept(requests, CheckpointCause::TimeLimit, now);
    }
    requests.pending
}

/// Makes a request pending, unless it repeats another one.
fn accept(requests: &mut Requests, cause: CheckpointCause, now: Instant) {
    let is_repeated = || {
        let fulfilled = requests.fulfilled?;
        Some(!cause.stops() && now.duration_since(fulfilled) < REPETITION_TIME)
    };
    let is_pending = requests
        .pending
        .is_some_and(|pending| pending.cause.stops() || !cause.stops());
    if !requests.is_worker || is_pending || is_repeated() == Some(true) {
        return;
    }
    if cause.stops() {
        request_signals::note_stop();
    }
    let grace = process_info::config()
        .checkpoint_on
        .as_ref()
        .map(|signals| signals.grace);
    let deadline = match cause {
        CheckpointCause::TimeLimit => requests
            .granted
            .map(|granted| granted.end - granted.grace_end()),
        CheckpointCause::Signal(_) if cause.stops() => grace.map(|grace| now + grace),
        CheckpointCause::Signal(_) => None,
    };
    log::info!("{cause} requests a checkpoint");
    requests.pending = Some(PendingRequest {
        cause,
        since: now,
        deadline,
    });
}

/// Ends the job with the last checkpoint that is complete on disk.
fn end_without_checkpoint(cause: CheckpointCause) -> ! {
    if process_info::process().0 != 0 {
        std::thread::sleep(REPORT_DELAY);
    }
    let place = process_info::config().disk.clone().unwrap_or_default();
    let place = place.display();
    let status = match disk::last_complete() {
        Some(epoch) => {
            system_calls::print_message(message::stopped_with_older_checkpoint(
                cause,
                restart_option(),
                epoch,
                place,
            ));
            exit_status::CHECKPOINTED
        }
        None => {
            system_calls::print_message(message::stopped_without_checkpoint(cause, place));
            cause.status_without_checkpoint()
        }
    };
    reinit::abort(status)
}
