//! Workers and spares: who plays which part, and the runtime's own communicators.
#![allow(unsafe_code)]

use crate::cell::Main;
use crate::domains::{self, Places};
use crate::errors::{SUCCESS, returns_errors};
use crate::generated::real;
use crate::handles::{self, VirtComm, real_comm};
use crate::real_types::RealComm;
use crate::recovery::Rewound;
use crate::redundancy::{Redundancy, Scheme};
use crate::requests::UNDEFINED;
use crate::{
    boot, checkpoint, cut, disk, errors, events, fault, journal, objects, peers, recovery, requests, sys, traffic,
    ulfm, user,
};
use ckptd::events::{EndHow, Kind, Role, Spare, Worker, WorldRank};
use ckptd::relay::RankStage;
use std::ffi::c_int;
use understudy_abi::exit;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Plays this worker.
    Worker(u32),
    /// Waits for a part.
    Spare,
}

/// The runtime's view of the job.
pub struct World {
    /// All living processes, workers and spares.
    pub control: RealComm,
    /// What the program sees as MPI_COMM_WORLD.
    pub workers: RealComm,
    /// All workers, for cuts, shipping and commits.
    pub private: RealComm,
    /// This process alone.
    pub own: RealComm,
    /// What this process does.
    pub part: Part,
    /// Its rank in the launcher's world.
    pub launcher_rank: u32,
    /// Number of workers.
    pub worker_count: u32,
    /// Number of spares that the job was started with.
    pub spare_count: u32,
    /// Who holds whose copies.
    pub redundancy: Redundancy,
    /// The node of each rank of the launcher's world.
    pub nodes: Vec<u64>,
    /// Whether failures are recovered from.
    pub protected: bool,
    /// MPI_Finalize has passed its last point of recovery.
    pub finalized: bool,
    /// How many recoveries there were.
    pub recoveries: u32,
    /// Launcher rank of the process that plays each worker.
    pub players: Vec<u32>,
    /// Launcher ranks of the processes that were alive after the last recovery.
    pub living: Vec<u32>,
}

const NULL: RealComm = RealComm(std::ptr::null_mut());

static WORLD: Main<Option<World>> = Main::new(None);

/// The job, after MPI_Init.
pub fn get() -> &'static mut World {
    WORLD.get().as_mut().expect("MPI is initialised")
}

/// Whether MPI_Init has been called.
pub fn is_initialised() -> bool {
    WORLD.get().is_some()
}

/// Whether failures are recovered from now.
#[inline]
pub fn is_protected() -> bool {
    WORLD
        .get()
        .as_ref()
        .is_some_and(|world| world.protected && !world.finalized)
}

/// The communicator for cuts, shipping and commits.
pub fn private() -> RealComm {
    get().private
}

/// The communicator of this process alone.
pub fn own_comm() -> RealComm {
    get().own
}

/// The worker that this process plays.
pub fn worker() -> u32 {
    match get().part {
        Part::Worker(worker) => worker,
        Part::Spare => u32::MAX,
    }
}

/// Ends the job with a status: the launcher's status will be this process's.
pub fn abort(code: c_int) -> ! {
    user::set_stage(RankStage::Running);
    traffic::tell();
    events::emit(Kind::End {
        how: EndHow::Aborted(code),
    });
    user::release_output();
    if peers::has_others() && WORLD.get().is_some() {
        recovery::announce_abort(code);
    }
    peers::end_local();
    // The others could not ask their relays to do it.
    let size = WORLD.get().as_ref().map_or(0, |world| world.nodes.len() as u32);
    (0..size).for_each(user::remove_ledger);
    // A launcher takes a process that ends with 0 for one that was done.
    sys::exit_now(if code & 0xff == 0 { 1 } else { code })
}

fn size_and_rank(comm: RealComm) -> (u32, u32) {
    let (mut size, mut rank) = (0, 0);
    // SAFETY: local queries of a valid communicator.
    unsafe {
        real::PMPI_Comm_size(comm, &mut size);
        real::PMPI_Comm_rank(comm, &mut rank);
    }
    (size as u32, rank as u32)
}

/// How many processes there are in `control`.
pub fn living_count() -> u32 {
    size_and_rank(get().control).0
}

/// A duplicate that returns errors; with the barrier without which a revocation crashes a rank that is still inside.
pub fn duplicate(comm: RealComm) -> Result<RealComm, c_int> {
    let mut copy = NULL;
    // SAFETY: collectives over a valid communicator.
    unsafe {
        succeeded(real::PMPI_Comm_dup(comm, &mut copy))?;
        returns_errors(copy);
        succeeded(real::PMPI_Barrier(copy))?;
    }
    Ok(copy)
}

/// A part of a communicator, `None` for those outside.
pub fn split(comm: RealComm, key: Option<u32>) -> Result<Option<RealComm>, c_int> {
    let mut part = NULL;
    let color = if key.is_some() { 0 } else { UNDEFINED };
    // SAFETY: collectives over valid communicators.
    unsafe {
        succeeded(real::PMPI_Comm_split(comm, color, key.unwrap_or(0) as c_int, &mut part))?;
        if key.is_none() {
            return Ok(None);
        }
        returns_errors(part);
        succeeded(real::PMPI_Barrier(part))?;
    }
    Ok(Some(part))
}

/// An MPI return code as a result.
pub fn succeeded(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}

fn launcher_world() -> RealComm {
    real_comm(VirtComm(handles::predefined_handle("ompi_mpi_comm_world")))
}

/// Sets the world up after the real MPI_Init. A worker returns; a spare sleeps here until it is given a part, and then
/// the program's frame has been replaced.
pub fn init() -> Result<(), Rewound> {
    if let Some(joined) = boot::joined() {
        return recovery::join(&joined);
    }
    let config = boot::config();
    let world = launcher_world();
    returns_errors(world);
    let (size, rank) = size_and_rank(world);
    let worker_count = size - config.spares;
    let part = if rank < worker_count {
        Part::Worker(rank)
    } else {
        Part::Spare
    };
    let mismatch = user::compare_layout(world);
    let places = domains::meet(world);
    peers::meet(places.all(), rank as usize);
    let wish = config.buddy_offset.unwrap_or_else(|| places.most_per_node());
    let too_few = too_few_workers(worker_count, config.scheme);
    let scheme = match too_few {
        Some(_) => Scheme::Copies(1.min(worker_count - 1)),
        None => config.scheme,
    };
    let mismatch = mismatch
        .or_else(|| no_domain(&places))
        .or(too_few)
        .filter(|_| !config.trace);
    let redundancy = Redundancy::place(&places.domains(worker_count), wish, scheme);
    let made = duplicate(world).and_then(|control| {
        let workers = split(control, matches!(part, Part::Worker(_)).then_some(rank))?;
        Ok((control, workers))
    });
    let (control, workers) = made.unwrap_or_else(|rc| failed_in_init(rc));
    let own = real_comm(VirtComm(handles::predefined_handle("ompi_mpi_comm_self")));
    let own = duplicate(own).unwrap_or_else(|rc| failed_in_init(rc));
    enter(World {
        control,
        workers: workers.unwrap_or(NULL),
        private: NULL,
        own,
        part,
        launcher_rank: rank,
        worker_count,
        spare_count: config.spares,
        redundancy,
        nodes: places.all().iter().map(|place| place.node).collect(),
        protected: mismatch.is_none() && !config.trace,
        finalized: false,
        recoveries: 0,
        players: (0..worker_count).collect(),
        living: (0..size).collect(),
    });
    emit_config(&tell_copies_at_home(&places));
    if let Some(why) = mismatch {
        refuse(&why);
    }
    let is_restart = open_disk();
    match part {
        Part::Worker(worker) => {
            init_worker(worker)?;
            if is_restart {
                Err(recovery::restart_from_disk())
            } else {
                Ok(())
            }
        }
        Part::Spare => recovery::wait_for_part(),
    }
}

/// From here on this process knows its job.
pub fn enter(world: World) {
    *WORLD.get() = Some(world);
    user::undo_start();
    emit_start();
    listen_for_exit();
}

/// Opens the disk level. Whether the job goes on from an epoch on disk.
fn open_disk() -> bool {
    let world = get();
    if !world.protected {
        return false;
    }
    let part = match world.part {
        Part::Worker(worker) => Some(worker),
        Part::Spare => None,
    };
    match disk::open(world.control, part, world.worker_count, &mut checkpoint::keep().store) {
        Ok(Ok(is_restart)) => is_restart,
        Ok(Err(why)) => {
            if world.launcher_rank == 0 {
                sys::say(format_args!("{why}; the job stops"));
            }
            recovery::end_together(world.control, exit::REFUSED)
        }
        Err(rc) => failed_in_init(rc),
    }
}

/// A process was lost before there was anything to go back to.
pub fn failed_in_init(rc: c_int) -> ! {
    crate::sys::say(format_args!(
        "a process failed during MPI_Init ({}); start the job again",
        errors::text(rc)
    ));
    abort(1)
}

/// Why copies cannot be placed.
fn no_domain(places: &Places) -> Option<String> {
    let rank = places.without_domain()?;
    let file = boot::config().domains.clone().unwrap_or_default();
    Some(format!(
        "UNDERSTUDY_DOMAIN: rank {rank} cannot use {}; it must be readable on every node, with lines `host domain`",
        file.display()
    ))
}

/// Why so few workers cannot be protected in this way.
fn too_few_workers(workers: u32, scheme: Scheme) -> Option<String> {
    let fewest = scheme.fewest_workers();
    match workers {
        1 => Some("with a single worker there is no buddy to keep its copy".into()),
        _ if workers >= fewest => None,
        _ => Some(format!(
            "UNDERSTUDY_COPIES={scheme} needs at least {fewest} workers, and there are {workers}; set it to 1, or start more"
        )),
    }
}

/// Workers that would be lost with their domain, as `N of W`; with several nodes the user is told.
fn tell_copies_at_home(places: &Places) -> String {
    let world = get();
    let (at_home, workers) = (
        world.redundancy.together(&places.domains(world.worker_count)).len(),
        world.worker_count,
    );
    if at_home > 0 && world.protected && world.launcher_rank == 0 {
        let what = match world.redundancy.is_parity() {
            true => format!(
                "{at_home} of {workers} workers share their domain with another one of their parity group, since there are fewer domains of their size than workers in a group; they are lost if all of it fails"
            ),
            false => format!(
                "{at_home} of {workers} copies are in the domain of their own worker, since more than half of the workers are there; they are lost if all of it fails"
            ),
        };
        if places.are_several_nodes() {
            sys::say(format_args!(
                "{what}; spread the ranks more evenly (see UNDERSTUDY_DOMAIN)"
            ));
        } else {
            log::info!("{what}");
        }
    }
    format!("{at_home} of {workers}")
}

fn emit_start() {
    let world = get();
    let role = match world.part {
        Part::Worker(worker) => Role::Worker(Worker(worker)),
        Part::Spare => Role::Spare(Spare(world.launcher_rank - world.worker_count)),
    };
    events::emit(Kind::Start {
        pid: std::process::id(),
        world_rank: WorldRank(world.launcher_rank),
        role,
        workers: world.worker_count,
        spares: world.spare_count,
        host: user::host_name(),
        program: user::program_name(),
        version: env!("CARGO_PKG_VERSION").into(),
        job: boot::job(),
    });
}

fn emit_config(copies_at_home: &str) {
    let mut settings = crate::config::Config::listing(|name| std::env::var(name).ok());
    settings.push(("copies in their own domain".into(), copies_at_home.to_owned()));
    events::emit(Kind::Config { settings });
}

/// Says why the job is not protected; stops it if protection is required.
fn refuse(why: &str) {
    if get().launcher_rank == 0 {
        tell_refused(why, boot::config().strict());
    } else {
        events::emit(Kind::Refused { reason: why.to_owned() });
    }
    if boot::config().strict().is_some() {
        recovery::end_together(get().control, exit::REFUSED);
    }
}

/// Tells the user why the job is not protected (any more), and what follows.
pub fn say_refused(why: &str) {
    tell_refused(why, boot::config().require.then_some("UNDERSTUDY_REQUIRE=1"));
}

fn tell_refused(why: &str, strict: Option<&str>) {
    let outcome = strict.map_or_else(
        || "the program runs unprotected, on the workers only".into(),
        |setting| format!("the job stops ({setting})"),
    );
    sys::say(format_args!("{why}; {outcome}"));
    events::emit(Kind::Refused { reason: why.to_owned() });
}

/// No checkpoints any more, and no recovery; some rank has said why. All workers do this at the same cut.
pub fn give_up_protection() {
    if boot::config().require {
        recovery::end_together(get().private, exit::REFUSED);
    }
    get().protected = false;
}

fn init_worker(worker: u32) -> Result<(), Rewound> {
    let world = get();
    world.private = duplicate(world.workers).unwrap_or_else(|rc| failed_in_init(rc));
    objects::comm::init(world.workers, world.worker_count, worker).unwrap_or_else(|rc| failed_in_init(rc));
    requests::init(world.worker_count);
    traffic::init(world.worker_count);
    Ok(())
}

/// The first checkpoint, at the end of MPI_Init: from here on any failure is recovered from.
pub fn first_checkpoint() -> Result<(), Rewound> {
    if !is_protected() {
        return Ok(());
    }
    cut::take()?;
    checkpoint::finish()?;
    fault::point("init.end", checkpoint::epoch());
    Ok(())
}

/// The program ends by exit(3). If it has not called MPI_Finalize, the others will find it dead; that it is not, and that
/// nobody needs to take its part, can only be told to the spares.
unsafe extern "C" fn leaving(status: c_int) {
    let Some(world) = WORLD.get() else { return };
    if world.finalized || !matches!(world.part, Part::Worker(_)) {
        return;
    }
    world.finalized = true;
    user::leave(status);
    if status != 0 {
        sys::say(format_args!(
            "worker {} ends with status {status}, without MPI_Finalize",
            worker()
        ));
    }
    recovery::release_spares();
    fault::report();
    traffic::tell();
    events::emit(Kind::End {
        how: EndHow::Exited(status),
    });
    user::release_output();
}

/// The program ends by _exit(2), maybe in a signal handler and in the middle of anything.
unsafe extern "C" fn leaving_at_once(status: c_int) {
    let is_missed = |world: &World| !world.finalized && matches!(world.part, Part::Worker(_));
    if WORLD.get().as_ref().is_some_and(is_missed) {
        user::leave(status);
    }
}

/// Lets the runtime know when the program ends.
fn listen_for_exit() {
    let hook: unsafe extern "C" fn(c_int) = leaving;
    let at_once: unsafe extern "C" fn(c_int) = leaving_at_once;
    // SAFETY: registers on the program's stack.
    unsafe {
        crate::arch::call_user(
            boot::info().call_at_exit as *const std::ffi::c_void,
            hook as usize as u64,
            at_once as usize as u64,
            0,
            0,
            0,
        )
    };
}

/// The end (MPI_Finalize): all workers meet, then the spares are released.
pub fn finalize() -> Result<c_int, Rewound> {
    fault::point("finalize.begin", checkpoint::epoch());
    if is_protected() {
        checkpoint::finish()?;
        cut::finish()?;
        // An agreement, not a barrier: if somebody dies meanwhile, either all go on to the end or all recover.
        let mut flag = 1;
        // SAFETY: a collective over the workers.
        recovery::check(unsafe { ulfm::MPIX_Comm_agree(get().private, &mut flag) })?;
    }
    journal::trace::report();
    let world = get();
    world.finalized = true;
    objects::attribute::delete_comm(objects::comm::self_handle());
    if worker() == 0 {
        recovery::release_spares();
    }
    disk::end(Some(worker()));
    fault::point("finalize.end", checkpoint::epoch());
    fault::report();
    traffic::tell();
    events::emit(Kind::End { how: EndHow::Finalized });
    user::release_output();
    user::remove_closed_ledgers(0..world.nodes.len() as u32);
    // SAFETY: the last call of the real library.
    Ok(unsafe { real::PMPI_Finalize() })
}
