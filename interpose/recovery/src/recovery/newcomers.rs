//! Processes that are in a generation of the job for the first time.
//!
//! Until then they have waited as spares, or the process manager has started them where none was
//! left. All meet after the library's initialisation, and the others tell what the job is. If all
//! have died at once, what they have left (`copies::look_for_legacy`) tells it.

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

/// What a newcomer has to know of the job.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Welcome {
    pub workers: u32,
    pub players: Vec<ProcessNumber>,
    pub nodes: Vec<u64>,
    pub recoveries: u32,
    pub redundancy: Redundancy,
    pub deaths: Vec<Death>,
    /// What is believed about failures.
    pub failures: Failures,
    pub disk: Option<disk::Told>,
}

/// The communicator of a newcomer's first generation, once.
pub fn take_first(rt: &Runtime) -> Option<RealComm> {
    rt.recovery.first.take()
}

/// Who is in a generation.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
struct Member {
    /// The process's number, by which the job knows it.
    number: ProcessNumber,
    knows: Knowledge,
    /// How many recoveries there were, this one included, for all that it knows.
    recoveries: u32,
}

/// How much a process knows of the job, from little to much.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
enum Knowledge {
    Nothing,
    /// What a dead process has left, after so many recoveries.
    Left(u32),
    /// It has been in the job before.
    All,
}

impl Member {
    fn is_new(&self) -> bool {
        self.knows != Knowledge::All
    }
}

/// Who tells the newcomers of the job.
fn leader(members: &[Member]) -> mpi::Result<Rank> {
    let most = members.iter().map(|member| member.knows).max();
    let most = most.filter(|&most| most != Knowledge::Nothing);
    let first = members.iter().position(|member| Some(member.knows) == most);
    first
        .map(|rank| Rank(rank as u32))
        .ok_or(mpi::Error::INTERN)
}

/// The world of the library, and this process's own, ready for use.
fn new_worlds() -> mpi::Result<[RealComm; 2]> {
    // What the program sees under these names may be duplicates.
    let [all, own] = [RealComm::world(), RealComm::of_self()];
    all.return_errors();
    own.return_errors();
    Ok([all, own.duplicate()?])
}

/// All processes of the generation that has begun. Newcomers are told of the job.
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
    // Some may have taken the one before for a success.
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

/// Tells newcomers of the job, and hears of their places.
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

/// What a newcomer has to know.
pub fn welcome(rt: &Runtime) -> Vec<u8> {
    bincode::encode_to_vec(welcome_of(rt), standard()).unwrap_or_default()
}

/// The same as this process knows it.
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

/// The bytes of process `root`, for everybody.
fn share(all: RealComm, root: Rank, mut text: Vec<u8>) -> mpi::Result<Vec<u8>> {
    let mut length = [text.len() as u64];
    all.broadcast(root, &mut length)?;
    text.resize(length[0] as usize, 0);
    all.broadcast(root, &mut text)?;
    Ok(text)
}

/// Notes where the processes of these numbers are.
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

/// A part cannot be taken by a process whose address space differs.
fn compare(rt: &Runtime, all: RealComm) -> mpi::Result<()> {
    let Some(difference) = user::compare_layout(rt, all)? else {
        return Ok(());
    };
    if all.rank()? == Rank(0) {
        sys::say(message::replacement_differs(difference));
    }
    // Who ends takes the others with it.
    all.barrier()?;
    ending::abort(rt, understudy_abi::exit::UNSAVED)
}

/// The newcomer's side: the job as it sees it. Nothing is known here that another failure could
/// destroy: the process would be started again.
pub fn come_in(rt: &Runtime) -> World {
    match hear(rt) {
        Ok(world) => world,
        Err(error) => {
            log::info!("the first generation of this process has failed: {error}");
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
        // This one is counted when it begins here, too.
        recoveries: recoveries(&members)
            .checked_sub(1)
            .unwrap_or(told.recoveries),
        players: told.players,
    })
}
