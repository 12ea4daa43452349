//! This process as a client of the node's daemon (`UNDERSTUDY_DAEMON`), which ranks spares.
//!
//! Nothing depends on the daemon. Its answer is only a placement hint, which the plan checks
//! (`recovery_plan`). Without an answer the built-in rule selects a spare. A recovery waits for the
//! answer no longer than `RECOVERY_LIMIT`. Idle spares keep a connection, over which they send
//! heartbeats. The client has no thread, and no descriptor in the range of the program side.

mod daemon_link;

use crate::{Runtime, domains, peers, process_info, reinit, world};
pub(crate) use daemon_link::DaemonLink;
use std::time::{Duration, Instant};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::client::{Client, ClientError};
use understudy_wire::spares::{Lease, LeaseToken, ProcessLocation, Spare, SpareLimits, SpareNeed};
use understudy_wire::{Answer, Request, auth};

/// Time that a recovery waits for the daemon.
const RECOVERY_LIMIT: Duration = Duration::from_millis(100);
/// Time that a job with a missing spare waits for the daemon after a recovery.
const GRANT_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for a connection or an answer outside of a recovery.
///
/// The process blocks meanwhile: a spare that registers, or a process that gives leases back.
const SPARE_LIMIT: Duration = Duration::from_millis(20);
/// Time between two heartbeats. The daemon considers a spare dead after 10 s.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(2);

/// True if a daemon is configured.
pub fn is_set() -> bool {
    process_info::config().daemon.is_some()
}

fn connect(limit: Duration) -> Result<Client, ClientError> {
    let config = process_info::config();
    let Some(address) = &config.daemon else {
        return Err(ClientError::Unexpected);
    };
    let tokens = match &config.daemon_token {
        Some(path) => auth::read_tokens(path)?,
        None => Vec::new(),
    };
    Client::connect(
        address,
        tokens.first().map(Vec::as_slice),
        limit,
        RUNTIME_FD_BASE,
    )
}

/// Sends a heartbeat of an idle spare if one is due.
///
/// Registers the spare first if necessary. Returns the time until the next heartbeat, or `None`
/// without a daemon.
pub fn poll_spare(rt: &Runtime) -> Option<Duration> {
    if !is_set() {
        return None;
    }
    let link = &mut *rt.daemon.link.borrow_mut();
    if let Some(left) = link
        .due
        .and_then(|due| due.checked_duration_since(Instant::now()))
    {
        return Some(left);
    }
    let outcome = match &mut link.client {
        Some(client) => client.notify(&Request::Beat),
        None => register().map(|client| link.client = Some(client)),
    };
    if let Err(why) = outcome {
        log::info!("this spare is not registered with the daemon: {why}");
        link.client = None;
    }
    link.due = Some(Instant::now() + HEARTBEAT_PERIOD);
    Some(HEARTBEAT_PERIOD)
}

fn register() -> Result<Client, ClientError> {
    let place = domains::own_location();
    let spare = Spare {
        rank: process_info::process(),
        pid: std::process::id(),
        launcher: std::os::unix::process::parent_id(),
        host: place.host_name(),
        domain: domain_name(place.domain),
        workers: reinit::neighbours(),
    };
    let spares = process_info::config().spares;
    let limits = SpareLimits {
        minimum: if process_info::config().replenish {
            spares
        } else {
            0
        },
        maximum: spares,
    };
    let job = process_info::job();
    let mut client = connect(SPARE_LIMIT)?;
    match client.request(&Request::Register { job, spare, limits }, SPARE_LIMIT)? {
        Answer::Welcome => Ok(client),
        Answer::Refused(refusal) => Err(ClientError::Closed(refusal.to_string())),
        _ => Err(ClientError::Unexpected),
    }
}

/// Sends a last message, and closes the connection.
fn send_last(rt: &Runtime, ask: &Request) {
    let client = rt.daemon.link.borrow_mut().client.take();
    if let Some(mut client) = client {
        let _ = client.notify(ask);
    }
}

/// Reports that this process has replaced a worker.
pub fn report_replacing(rt: &Runtime, worker: Worker) {
    send_last(rt, &Request::Replaced { worker });
}

/// Reports that this spare was never needed.
pub fn report_unneeded(rt: &Runtime) {
    send_last(rt, &Request::Leave);
}

/// Returns the place where a process runs, or where a failed process ran.
fn place_of(process: ProcessNumber) -> ProcessLocation {
    ProcessLocation {
        host: peers::host(process),
        domain: domain_name(peers::domain(process)),
    }
}

fn domain_name(domain: u64) -> String {
    format!("{domain:016x}")
}

/// Requests spares for failed workers.
///
/// `round` increases with every request of a job.
pub fn lease(rt: &Runtime, round: u64, dead: &[Worker]) -> Result<Vec<Lease>, String> {
    let world = world::get(rt);
    let need = |&worker: &Worker| SpareNeed {
        worker,
        failed: place_of(world.process_of[worker.index()]),
        copies: world
            .redundancy
            .buddies_of(worker)
            .filter(|buddy| !dead.contains(buddy))
            .map(|buddy| place_of(world.process_of[buddy.index()]))
            .collect(),
    };
    let (job, needs) = (process_info::job(), dead.iter().map(need).collect());
    match request(&Request::Lease { job, round, needs }, RECOVERY_LIMIT)? {
        Answer::Leased(leases) => Ok(leases),
        _ => Err(ClientError::Unexpected.to_string()),
    }
}

/// Connects and sends a request, within `limit` for both.
fn request(question: &Request, limit: Duration) -> Result<Answer, String> {
    let began = Instant::now();
    let mut client = connect(limit).map_err(|error| error.to_string())?;
    let left = limit.saturating_sub(began.elapsed());
    match client.request(question, left) {
        Ok(Answer::Refused(refusal)) => Err(refusal.to_string()),
        answer => answer.map_err(|error| error.to_string()),
    }
}

/// Requests new spares; returns the number that the daemon grants this job.
///
/// The job has `spares` idle spares now, and had `aim` spares at the start.
pub fn grant_spares(spares: u32, aim: u32) -> Result<u32, String> {
    let job = process_info::job();
    match request(&Request::Replenish { job, spares, aim }, GRANT_LIMIT)? {
        Answer::Start { count } => Ok(count.min(aim.saturating_sub(spares))),
        _ => Err(ClientError::Unexpected.to_string()),
    }
}

/// Gives leases that the plan does not use back to the daemon.
pub fn release_leases(tokens: &[LeaseToken]) {
    if tokens.is_empty() {
        return;
    }
    // After an error, the leases expire a little later.
    if let Ok(mut client) = connect(SPARE_LIMIT) {
        for &token in tokens {
            let job = process_info::job();
            let _ = client.notify(&Request::GiveBack { job, token });
        }
    }
}
