//! This process as a client of the node's daemon (UNDERSTUDY_CKPTD), which may say which spare
//! takes which part.
//!
//! Nothing depends on it: what it answers is only a wish, which the plan checks (`recovery::plan`),
//! and without an answer the built-in rule chooses. In a recovery its answer is waited for no
//! longer than [`LIMIT`]. Idle spares keep a connection, over which they say now and then that they
//! live. No thread, and no descriptor that the user side could meet.

mod daemon_link;

use crate::{Runtime, domains, peers, renewal, told, world};
pub(crate) use daemon_link::DaemonLink;
use std::time::{Duration, Instant};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::client::{Client, ClientError};
use understudy_wire::spares::{Lease, Limits, Need, Place, Spare, Token};
use understudy_wire::{Answer, Ask, auth};

/// How long a recovery waits for the daemon.
const LIMIT: Duration = Duration::from_millis(100);
/// How long a job waits for it that has recovered, and misses a spare.
const GRANT_LIMIT: Duration = Duration::from_secs(1);
/// How long a spare waits for it. While it does, it sleeps.
const SPARE_LIMIT: Duration = Duration::from_millis(20);
/// Time between two signs of life. The daemon takes a spare for dead after 10 s.
const PERIOD: Duration = Duration::from_secs(2);

/// Whether there is one to be asked.
pub fn is_set() -> bool {
    told::config().daemon.is_some()
}

fn connect(limit: Duration) -> Result<Client, ClientError> {
    let config = told::config();
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

/// An idle spare says that it is there, if it is time to. When it is time again, if ever.
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
        Some(client) => client.tell(&Ask::Beat),
        None => register().map(|client| link.client = Some(client)),
    };
    if let Err(why) = outcome {
        log::info!("the daemon does not have this spare: {why}");
        link.client = None;
    }
    link.due = Some(Instant::now() + PERIOD);
    Some(PERIOD)
}

fn register() -> Result<Client, ClientError> {
    let place = domains::own_place();
    let spare = Spare {
        rank: told::process(),
        pid: std::process::id(),
        launcher: std::os::unix::process::parent_id(),
        host: place.host_name(),
        domain: domain_name(place.domain),
        workers: renewal::neighbours(),
    };
    let spares = told::config().spares;
    let limits = Limits {
        minimum: if told::config().replenish { spares } else { 0 },
        maximum: spares,
    };
    let job = told::job();
    let mut client = connect(SPARE_LIMIT)?;
    match client.ask(&Ask::Register { job, spare, limits }, SPARE_LIMIT)? {
        Answer::Welcome => Ok(client),
        Answer::Refused(refusal) => Err(ClientError::Closed(refusal.to_string())),
        _ => Err(ClientError::Unexpected),
    }
}

/// Says something for the last time, and closes the connection.
fn farewell(rt: &Runtime, ask: &Ask) {
    let client = rt.daemon.link.borrow_mut().client.take();
    if let Some(mut client) = client {
        let _ = client.tell(ask);
    }
}

/// This process has the part of a worker from now on.
pub fn playing(rt: &Runtime, worker: Worker) {
    farewell(rt, &Ask::Playing { worker });
}

/// This spare was never needed.
pub fn leave(rt: &Runtime) {
    farewell(rt, &Ask::Leave);
}

/// Where a process is or was.
fn place_of(process: ProcessNumber) -> Place {
    Place {
        host: peers::host(process),
        domain: domain_name(peers::domain(process)),
    }
}

fn domain_name(domain: u64) -> String {
    format!("{domain:016x}")
}

/// Asks for spares for dead workers. Rounds grow with every time that a job asks.
pub fn lease(rt: &Runtime, round: u64, dead: &[Worker]) -> Result<Vec<Lease>, String> {
    let world = world::get(rt);
    let need = |&worker: &Worker| Need {
        worker,
        failed: place_of(world.players[worker.index()]),
        copies: world
            .redundancy
            .holders_of(worker)
            .filter(|holder| !dead.contains(holder))
            .map(|holder| place_of(world.players[holder.index()]))
            .collect(),
    };
    let (job, needs) = (told::job(), dead.iter().map(need).collect());
    match ask(&Ask::Lease { job, round, needs }, LIMIT)? {
        Answer::Leased(leases) => Ok(leases),
        _ => Err(ClientError::Unexpected.to_string()),
    }
}

/// Connects and asks, within so much time in all.
fn ask(question: &Ask, limit: Duration) -> Result<Answer, String> {
    let began = Instant::now();
    let mut client = connect(limit).map_err(|error| error.to_string())?;
    let left = limit.saturating_sub(began.elapsed());
    match client.ask(question, left) {
        Ok(Answer::Refused(refusal)) => Err(refusal.to_string()),
        answer => answer.map_err(|error| error.to_string()),
    }
}

/// How many new spares the daemon lets this job have, which has so many idle ones, and had `aim` at
/// first.
pub fn may_start(spares: u32, aim: u32) -> Result<u32, String> {
    let job = told::job();
    match ask(&Ask::Replenish { job, spares, aim }, GRANT_LIMIT)? {
        Answer::Start { count } => Ok(count.min(aim.saturating_sub(spares))),
        _ => Err(ClientError::Unexpected.to_string()),
    }
}

/// Leases that are not used, since the plan is another one.
pub fn give_back(tokens: &[Token]) {
    if tokens.is_empty() {
        return;
    }
    // Whatever goes wrong, they go back by themselves a little later.
    if let Ok(mut client) = connect(SPARE_LIMIT) {
        for &token in tokens {
            let job = told::job();
            let _ = client.tell(&Ask::GiveBack { job, token });
        }
    }
}
