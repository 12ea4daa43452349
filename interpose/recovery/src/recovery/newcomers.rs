//! Processes that join the running job.
//!
//! They were spares, or the process manager has started them because no spare was left. After the
//! library's initialisation all processes meet, and the others send the state of the job. If all
//! workers have died at once, the state is in the replicas of dead processes
//! (`copies::look_for_legacy`).

use super::death_history::Death;
use super::deaths;
use crate::Runtime;
use crate::domains::{self, Place, Places};
use crate::gather::everybodys;
use crate::schedule::{self, Failures};
use crate::world::{self, Part, World};
use crate::{copies, disk, ending, peers, sys, told, user};
use bincode::config::standard;
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Rank};
use understudy_policy::redundancy::Redundancy;

/// State of the job that a joining process needs.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Welcome {
    pub workers: u32,
    pub players: Vec<ProcessNumber>,
    pub nodes: Vec<u64>,
    pub recoveries: u32,
    pub redundancy: Redundancy,
    pub deaths: Vec<Death>,
    /// Estimate of failure rates.
    pub failures: Failures,
    pub disk: Option<disk::Told>,
}

/// Returns the communicator of a joining process's first generation, once.
pub fn take_first(rt: &Runtime) -> Option<RealComm> {
    rt.recovery.first.take()
}

/// Member of a generation.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
struct Member {
    /// Number of the process in the job.
    number: ProcessNumber,
    knows: Knowledge,
    /// Number of recoveries that the process has seen, with the present one.
    recoveries: u32,
}

/// Information that a process has about the job, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
enum Knowledge {
    Nothing,
    /// State that a dead process has left, after this number of recoveries.
    Left(u32),
    /// The process was in the job before.
    All,
}

impl Member {
    fn is_new(&self) -> bool {
        self.knows != Knowledge::All
    }
}

/// Returns the member that sends the job's state to the joining processes.
fn leader(members: &[Member]) -> mpi::Result<Rank> {
    let most = members.iter().map(|member| member.knows).max();
    let most = most.filter(|&most| most != Knowledge::Nothing);
    let first = members.iter().position(|member| Some(member.knows) == most);
    first
        .map(|rank| Rank(rank as u32))
        .ok_or(mpi::Error::INTERN)
}

/// Returns the library's world and self communicators, ready for use.
fn new_worlds() -> mpi::Result<[RealComm; 2]> {
    // The communicators that the program sees under these names may be duplicates.
    let [all, own] = [RealComm::world(), RealComm::of_self()];
    all.return_errors();
    own.return_errors();
    Ok([all, own.duplicate()?])
}

/// Returns the communicator of all processes of a new generation.
///
/// Joining processes get the state of the job.
pub fn gather_all(rt: &Runtime) -> mpi::Result<RealComm> {
    let [all, own] = new_worlds()?;
    world::update(rt, |world| {
        (world.own, world.workers, world.private) = (own, RealComm::NONE, RealComm::NONE)
    });
    let world = world::get(rt);
    let own = Member {
        number: world.process,
        knows: Knowledge::All,
        recoveries: world.recoveries,
    };
    let members = everybodys(all, &own)?;
    // Some processes may have seen the last recovery succeed, and others not.
    world::update(rt, |world| world.recoveries = recoveries(&members));
    if members.iter().any(Member::is_new) {
        greet(rt, all, &members)?;
    }
    Ok(all)
}

fn recoveries(members: &[Member]) -> u32 {
    members
        .iter()
        .map(|member| member.recoveries)
        .max()
        .unwrap_or(0)
}

/// Sends the job's state to joining processes, and collects their places.
fn greet(rt: &Runtime, all: RealComm, members: &[Member]) -> mpi::Result<()> {
    share(all, leader(members)?, welcome(rt))?;
    let places = domains::meet(all)?;
    compare(rt, all)?;
    let places = members.iter().zip(places.all());
    let new = places.filter(|(member, _)| member.is_new());
    world::update(rt, |world| {
        learn_places(
            &mut world.nodes,
            new.map(|(member, place)| (member.number, place)),
        )
    });
    Ok(())
}

/// Returns the encoded state of the job that a joining process needs.
pub fn welcome(rt: &Runtime) -> Vec<u8> {
    bincode::encode_to_vec(welcome_of(rt), standard()).unwrap_or_default()
}

/// Returns the state of the job in the view of this process.
fn welcome_of(rt: &Runtime) -> Welcome {
    let world = world::get(rt);
    Welcome {
        workers: world.worker_count,
        players: world.players.clone(),
        nodes: world.nodes.clone(),
        recoveries: world.recoveries,
        redundancy: world.redundancy.clone(),
        deaths: deaths::earlier(rt),
        failures: schedule::state(rt).pace.failures(),
        disk: disk::told(rt),
    }
}

/// Broadcasts the bytes of process `root` to all processes.
fn share(all: RealComm, root: Rank, mut text: Vec<u8>) -> mpi::Result<Vec<u8>> {
    let mut length = [text.len() as u64];
    all.broadcast(root, &mut length)?;
    text.resize(length[0] as usize, 0);
    all.broadcast(root, &mut text)?;
    Ok(text)
}

/// Records the places of these processes.
pub fn learn_places<'a>(
    nodes: &mut Vec<u64>,
    places: impl Iterator<Item = (ProcessNumber, &'a Place)>,
) {
    let own = domains::own_place();
    for (number, place) in places {
        peers::add(place, number, &own);
        told::grow_to(number.0 + 1);
        nodes.resize(nodes.len().max(number.index() + 1), 0);
        nodes[number.index()] = place.node;
    }
}

/// Ends the job if address spaces differ, since the process could not take over.
fn compare(rt: &Runtime, all: RealComm) -> mpi::Result<()> {
    let Some(difference) = user::compare_layout(rt, all)? else {
        return Ok(());
    };
    if all.rank()? == Rank(0) {
        sys::say(message::replacement_differs(difference));
    }
    // The message must be out before any process aborts, which ends the others.
    all.barrier()?;
    ending::abort(rt, understudy_abi::exit::UNSAVED)
}

/// Joins the running job as a new process; returns the state of the world.
///
/// If the first generation fails, the process ends. It has no state to lose, and the process
/// manager starts another one.
pub fn come_in(rt: &Runtime) -> World {
    match hear(rt) {
        Ok(world) => world,
        Err(error) => {
            log::info!("the first MPI instance of this process has failed: {error}");
            crate::sys::kill_self();
        }
    }
}

fn hear(rt: &Runtime) -> mpi::Result<World> {
    let [all, own] = new_worlds()?;
    let number = told::process();
    let knows = copies::look_for_legacy(rt).map_or(Knowledge::Nothing, Knowledge::Left);
    let own_member = Member {
        number,
        knows,
        recoveries: 0,
    };
    let members = everybodys(all, &own_member)?;
    let text = copies::welcome_of_predecessor(rt).unwrap_or_default();
    let text = share(all, leader(&members)?, text)?;
    let places: Places = domains::meet(all)?;
    compare(rt, all)?;
    let (told, _) = bincode::decode_from_slice::<Welcome, _>(&text, standard())
        .map_err(|_| mpi::Error::INTERN)?;
    let mut nodes = told.nodes;
    let numbers = members.iter().map(|member| member.number);
    learn_places(&mut nodes, numbers.zip(places.all()));
    deaths::learn(rt, told.deaths);
    schedule::state(rt).pace.adopt(told.failures);
    if let Some(disk) = told.disk {
        disk::join(rt, disk, told.workers);
    }
    rt.recovery.first.set(Some(all));
    Ok(World {
        workers: RealComm::NONE,
        private: RealComm::NONE,
        own,
        part: Part::Newcomer,
        process: number,
        worker_count: told.workers,
        redundancy: told.redundancy,
        nodes,
        protected: true,
        finalized: false,
        // The present recovery is counted when it begins in this process.
        recoveries: recoveries(&members)
            .checked_sub(1)
            .unwrap_or(told.recoveries),
        players: told.players,
    })
}
