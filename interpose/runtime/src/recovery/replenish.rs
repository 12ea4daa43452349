//! Spares that join the running job, in place of those that are used up (UNDERSTUDY_REPLENISH).
//!
//! At the end of a recovery all living processes are together. One of them has the launcher start another process of the
//! program (`pmix`), which comes as far as the end of the real MPI_Init in a world of its own, and is told by its environment
//! ([`understudy_abi::JOIN`]) what it is. All then accept it (MPI-4.1, 11.9), and are one communicator with it: the new `control`.
//! From then on it is a spare like any other, with the next rank that the job has not had.
//!
//! Open MPI 5.0.11 has three traps here. A process that first sends to another after that has died waits for ever for its
//! address (`PMIx_Get`): so every two exchange a message at once. MPI_Finalize waits for the dead of an inter-communicator,
//! and for the last newcomer: so that is freed as soon as it has been merged, and the shim lets it wait for nobody. And
//! shared memory connects only what was started together: the rest is TCP's.
//!
//! A daemon, if there is one, may grant fewer than are missing. If anything fails, the job goes on without, and does not try
//! again.
#![allow(unsafe_code)]

use super::deaths::{self, Death};
use super::retired::retire;
use super::wait_for_part;
use crate::arch::Rewound;
use crate::cell::Main;
use crate::domains::{self, Place};
use crate::errors::{self, ERR_INTERN, SUCCESS, returns_errors, succeeded};
use crate::fault::Lack;
use crate::generated::real;
use crate::handles::{self, VirtComm, VirtInfo, predefined_handle, real_comm, real_info};
use crate::pmix::{self, Program};
use crate::redundancy::Redundancy;
use crate::world::{self, Part, World};
use crate::{daemon, disk, fault, peers, renewal, shim, sys, told, user, watchdog};
use bincode::config::standard;
use std::ffi::{CString, OsString, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};
use understudy_abi::{JOIN, JOIN_PORT};
use understudy_mpi::real_types::RealComm;
use understudy_mpi::ulfm;

const NULL: RealComm = RealComm(std::ptr::null_mut());
/// `MPI_MAX_PORT_NAME`
const PORT_LENGTH: usize = 1024;
const TAG: c_int = 11;
/// How long a new process may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for tests in which none comes.
const NO_PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks for it.
const LOOK: Duration = Duration::from_millis(5);
/// After so many seconds, a process that nobody has accepted ends.
const LIFE: u32 = 20;

/// It has failed once.
static IS_GIVEN_UP: Main<bool> = Main::new(false);
/// Where the process started.
static DIRECTORY: Main<OsString> = Main::new(OsString::new());

/// What a newcomer has to know of the job.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Welcome {
    pub workers: u32,
    pub players: Vec<u32>,
    pub living: Vec<u32>,
    pub nodes: Vec<u64>,
    pub recoveries: u32,
    pub redundancy: Redundancy,
    pub deaths: Vec<Death>,
    pub disk: Option<disk::Told>,
    /// How many others come after it at once.
    left: u32,
}

/// Remembers where the process has started. To be called at the start of the runtime.
pub fn remember_start() {
    DIRECTORY.set(std::env::current_dir().unwrap_or_default().into_os_string());
}

/// Has as many spares started as are missing. All living processes call this at the end of a recovery, with the same
/// knowledge.
pub fn replenish() {
    if !told::config().replenish {
        return;
    }
    let world = world::get();
    let spares = world.living.len() as u32 - world.worker_count;
    if *IS_GIVEN_UP.borrow() || !world::is_protected() || spares >= world.spare_count {
        return;
    }
    if renewal::is_on() {
        if is_leader(&world) {
            renewal::replenish(grant(spares));
        }
        return;
    }
    have_started(granted(spares));
}

/// Whether this process speaks and acts for all.
fn is_leader(world: &World) -> bool {
    world.living.first() == Some(&world.launcher_rank)
}

/// One after the other; those that have just joined take part in it, too.
fn have_started(count: u32) {
    for left in (0..count).rev() {
        let world = world::get();
        let rank = world.nodes.len() as u32;
        let is_leader = is_leader(&world);
        match one_more(rank, is_leader, left) {
            Ok(()) if is_leader => sys::say(format_args!("spare rank {rank} has joined the job")),
            Ok(()) => {}
            Err(why) => {
                IS_GIVEN_UP.set(true);
                if is_leader {
                    let spares = world.living.len() as u32 - world.worker_count;
                    sys::say(format_args!(
                        "no new spare can join the job ({why}); it goes on with {spares} spare(s)"
                    ));
                }
                return;
            }
        }
    }
}

/// How many may be started: the daemon says, if there is one, or else as many as are missing.
fn grant(spares: u32) -> u32 {
    let wanted = world::get().spare_count;
    let missing = wanted - spares;
    if !daemon::is_set() {
        return missing;
    }
    let count = daemon::may_start(spares, wanted).unwrap_or_else(|why| {
        log::info!("the daemon does not say how many spares may be started: {why}");
        missing
    });
    if count < missing {
        sys::say(format_args!(
            "the daemon grants {count} new spare(s) instead of {missing}; the job goes on with {}",
            spares + count
        ));
    }
    count
}

/// The same everywhere.
fn granted(spares: u32) -> u32 {
    let world = world::get();
    if !daemon::is_set() {
        return grant(spares);
    }
    // An agreement is the bitwise `and` of what all say.
    let mut flag = match is_leader(&world) {
        true => grant(spares) as c_int,
        false => -1,
    };
    // SAFETY: an agreement, which ends whoever dies.
    let rc = unsafe { ulfm::MPIX_Comm_agree(world.control, &mut flag) };
    match rc {
        // If the first has died meanwhile, nobody has said anything.
        SUCCESS => flag.max(0) as u32,
        _ => 0,
    }
}

fn describe(rc: c_int) -> String {
    errors::text(rc)
}

/// One new process, from its start to the new `control`; `left` more will follow. The outcome is the same everywhere.
fn one_more(rank: u32, is_leader: bool, left: u32) -> Result<(), String> {
    let world = world::get();
    shim::note_newcomers();
    let dead_before = watchdog::ended();
    let mut port = [0 as c_char; PORT_LENGTH];
    let started = if is_leader { start(rank, &mut port) } else { Ok(()) };
    all_agree(world.control, started.is_ok())
        .then_some(())
        .ok_or_else(|| started.err().unwrap_or_else(|| "it could not be started".into()))?;
    // It makes one communicator of two groups.
    let accepted = watchdog::guard_since(dead_before, || accept(&port, is_leader));
    if !all_agree(world.control, accepted.is_ok()) {
        return Err(accepted.map_or_else(describe, |_| "a process failed meanwhile".into()));
    }
    let control = accepted.map_err(describe)?;
    let place = welcome(control, is_leader, left);
    if !all_agree(control, place.is_ok()) {
        return Err(place.map_or_else(|why| why, |_| "its address space differs".into()));
    }
    let (place, own) = place?;
    peers::add(&place, rank, &own);
    told::grow_to(rank + 1);
    retire([world.control]);
    world::update(|world| {
        world.nodes.push(place.node);
        world.living.push(rank);
        world.control = control;
    });
    Ok(())
}

/// Whether all say so; the answer is the same everywhere.
fn all_agree(comm: RealComm, ok: bool) -> bool {
    let mut flag = c_int::from(ok);
    // SAFETY: an agreement, which ends whoever dies.
    let rc = unsafe { ulfm::MPIX_Comm_agree(comm, &mut flag) };
    flag != 0 && rc == SUCCESS
}

/// Opens a port and has the process started.
fn start(rank: u32, port: &mut [c_char; PORT_LENGTH]) -> Result<(), String> {
    if !has_tcp() {
        return Err("Open MPI is told to do without the btl `tcp`, and no other connects processes that were not started together".into());
    }
    // SAFETY: the name gets at most that many bytes.
    unsafe { succeeded(real::PMPI_Open_port(no_info(), port.as_mut_ptr())) }.map_err(describe)?;
    let name: Vec<u8> = port
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    pmix::spawn(&program(rank, &name).ok_or("a variable of the environment has a zero")?)?;
    let (word, began) = (word(rank), Instant::now());
    let patience = if fault::pretends(Lack::Patience) {
        NO_PATIENCE
    } else {
        PATIENCE
    };
    while !pmix::is_published(&word) {
        if began.elapsed() >= patience {
            return Err(format!(
                "the new process has not come to the end of MPI_Init within {patience:?}"
            ));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// What the process with this rank says when it can be accepted. Nobody waits for one that has died before.
fn word(rank: u32) -> CString {
    CString::new(format!("understudy.{}.{rank}", told::job())).unwrap_or_default()
}

/// Whether the transport is there that connects processes which were not started together.
fn has_tcp() -> bool {
    let chosen = std::env::var("OMPI_MCA_btl").unwrap_or_default();
    match chosen.strip_prefix('^') {
        Some(without) => !without.split(',').any(|name| name == "tcp"),
        None => chosen.is_empty() || chosen.split(',').any(|name| name == "tcp"),
    }
}

fn no_info() -> understudy_mpi::real_types::RealInfo {
    real_info(VirtInfo(predefined_handle("ompi_mpi_info_null")))
}

/// This very program, as the launcher started it.
fn program(rank: u32, port: &[u8]) -> Option<Program> {
    let own = |entry: &(OsString, OsString)| {
        let name = entry.0.as_bytes();
        let mca = name.starts_with(b"OMPI_MCA_");
        let launchers = [&b"PMIX"[..], b"PMI_", b"OMPI_", b"PRTE", JOIN.as_bytes()];
        mca || !launchers.iter().any(|prefix| name.starts_with(prefix))
    };
    let variable = |name: &[u8], value: &[u8]| CString::new([name, b"=", value].concat()).ok();
    let mut environment: Vec<CString> = std::env::vars_os()
        .filter(own)
        .filter_map(|(name, value)| variable(name.as_bytes(), value.as_bytes()))
        .collect();
    let world = world::get();
    let started = world.worker_count + world.spare_count;
    environment.push(variable(
        JOIN.as_bytes(),
        format!("{} {rank} {started}", told::job()).as_bytes(),
    )?);
    environment.push(variable(JOIN_PORT.as_bytes(), port)?);
    let command = std::fs::read("/proc/self/cmdline").ok()?;
    let arguments = command.strip_suffix(b"\0").unwrap_or(&command);
    Some(Program {
        path: CString::new(user::program_name()).ok()?,
        arguments: arguments
            .split(|&byte| byte == 0)
            .filter_map(|argument| CString::new(argument).ok())
            .collect(),
        environment,
        directory: CString::new(DIRECTORY.borrow().clone().into_vec()).ok()?,
    })
}

/// One communicator of all and the newcomer, which is the last.
fn accept(port: &[c_char; PORT_LENGTH], is_leader: bool) -> Result<RealComm, c_int> {
    fault::point("accept.begin", 0);
    let control = world::get().control;
    let mut between = NULL;
    // SAFETY: a collective over `control`; the name counts at its rank 0 only.
    unsafe {
        succeeded(real::PMPI_Comm_accept(
            port.as_ptr(),
            no_info(),
            0,
            control,
            &mut between,
        ))?;
        if is_leader {
            real::PMPI_Close_port(port.as_ptr());
        }
    }
    merge(between, false)
}

fn merge(mut between: RealComm, is_newcomer: bool) -> Result<RealComm, c_int> {
    let mut together = NULL;
    returns_errors(between);
    // SAFETY: collectives over communicators that were just made.
    unsafe {
        succeeded(real::PMPI_Intercomm_merge(between, is_newcomer.into(), &mut together))?;
        real::PMPI_Comm_free(&mut between);
        returns_errors(together);
        connect_all(together)?;
    }
    Ok(together)
}

/// Every two exchange a message.
fn connect_all(comm: RealComm) -> Result<(), c_int> {
    let (mut size, mut rank) = (0, 0);
    let bytes = handles::byte_type();
    // SAFETY: empty messages between all members.
    unsafe {
        real::PMPI_Comm_size(comm, &mut size);
        real::PMPI_Comm_rank(comm, &mut rank);
        for distance in 1..size {
            let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
            let (none, nowhere) = (std::ptr::null(), std::ptr::null_mut());
            let status = std::ptr::null_mut();
            let rc = real::PMPI_Sendrecv(none, 0, bytes, to, TAG, nowhere, 0, bytes, from, TAG, comm, status);
            succeeded(rc)?;
        }
    }
    Ok(())
}

/// Tells the newcomer of the job, and hears of its place and of this process's own. The error is its address space, or a
/// failure.
fn welcome(control: RealComm, is_leader: bool, left: u32) -> Result<(Place, Place), String> {
    let world = world::get();
    let text = bincode::encode_to_vec(welcome_of(left), standard()).unwrap_or_default();
    share(control, 0, if is_leader { text } else { Vec::new() }).map_err(describe)?;
    let places = domains::meet(control);
    match user::compare_layout(control) {
        Some(difference) => Err(difference),
        None => {
            let own = world.living.iter().position(|&rank| rank == world.launcher_rank);
            let place = |at: Option<usize>| at.and_then(|at| places.all().get(at).copied());
            let both = place(places.all().len().checked_sub(1)).zip(place(own));
            both.ok_or_else(|| describe(ERR_INTERN))
        }
    }
}

/// The same as this process knows it.
pub fn welcome_of(left: u32) -> Welcome {
    let world = world::get();
    Welcome {
        workers: world.worker_count,
        players: world.players.clone(),
        living: world.living.clone(),
        nodes: world.nodes.clone(),
        recoveries: world.recoveries,
        redundancy: world.redundancy.clone(),
        deaths: deaths::earlier(),
        disk: disk::told(),
        left,
    }
}

/// The bytes of process `root`, for everybody.
pub fn share(comm: RealComm, root: u32, mut text: Vec<u8>) -> Result<Vec<u8>, c_int> {
    let mut length = text.len() as u64;
    let bytes = handles::byte_type();
    // SAFETY: broadcasts of a length, and of that many bytes.
    unsafe {
        succeeded(real::PMPI_Bcast(
            (&raw mut length).cast(),
            8,
            bytes,
            root as c_int,
            comm,
        ))?;
        text.resize(length as usize, 0);
        succeeded(real::PMPI_Bcast(
            text.as_mut_ptr().cast(),
            length as c_int,
            bytes,
            root as c_int,
            comm,
        ))?;
    }
    Ok(text)
}

/// The newcomer's side, after its real MPI_Init: the job as it sees it, and how many newcomers follow it. One that is not wanted
/// ends.
pub fn join(joined: &told::Joined) -> (World, u32) {
    fault::point("join.begin", 0);
    // SAFETY: alarm(2); SIGALRM ends the process, since nothing of the program has run that could have a handler.
    unsafe { libc::alarm(LIFE) };
    shim::note_newcomers();
    let Some(told) = come_in(joined) else { sys::exit_now(0) };
    // SAFETY: as above.
    unsafe { libc::alarm(0) };
    told
}

/// The newcomer is a spare from here on; so many others follow it.
pub fn begin_as_newcomer(left: u32) -> Result<(), Rewound> {
    fault::point("join.end", 0);
    have_started(left);
    wait_for_part()
}

/// The job as this process sees it, and how many newcomers follow it.
fn come_in(joined: &told::Joined) -> Option<(World, u32)> {
    let own = real_comm(VirtComm(predefined_handle("ompi_mpi_comm_self")));
    returns_errors(own);
    let port = CString::new(joined.port.as_str()).ok()?;
    let mut between = NULL;
    if !pmix::publish(&word(joined.rank)) {
        return None;
    }
    fault::point("join.half", 0);
    // SAFETY: a collective of this process alone, with the others on the other side.
    unsafe { succeeded(real::PMPI_Comm_connect(port.as_ptr(), no_info(), 0, own, &mut between)).ok()? };
    let control = merge(between, true).ok()?;
    let text = share(control, 0, Vec::new()).ok()?;
    let places = domains::meet(control);
    let is_equal = user::compare_layout(control).is_none();
    let told = bincode::decode_from_slice::<Welcome, _>(&text, standard());
    let made = world::duplicate(own);
    if !all_agree(control, is_equal && told.is_ok() && made.is_ok()) {
        return None;
    }
    let (told, _) = told.ok()?;
    let own_place = *places.all().last()?;
    for (&rank, place) in told.living.iter().zip(places.all()) {
        peers::add(place, rank, &own_place);
    }
    deaths::learn(told.deaths);
    if let Some(disk) = told.disk {
        disk::join(disk, told.workers);
    }
    let world = World {
        control,
        workers: NULL,
        private: NULL,
        own: made.ok()?,
        part: Part::Spare,
        launcher_rank: joined.rank,
        worker_count: told.workers,
        spare_count: joined.size - told.workers,
        redundancy: told.redundancy,
        nodes: told.nodes.into_iter().chain([own_place.node]).collect(),
        protected: true,
        finalized: false,
        recoveries: told.recoveries,
        players: told.players,
        living: told.living.into_iter().chain([joined.rank]).collect(),
    };
    Some((world, told.left))
}
