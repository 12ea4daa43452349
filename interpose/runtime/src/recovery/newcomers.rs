//! Processes that are in a generation of the job for the first time.
//!
//! The process manager starts one where nobody is left to take a part. All meet after the library's initialisation: the
//! others tell what the job is, and the newcomer is a spare from there on. If all have died at once, what they have left
//! (`checkpoint::look_for_legacy`) tells it.
#![allow(unsafe_code)]

use super::deaths::{self, Death};
use crate::cell::Main;
use crate::domains::{self, Place, Places};
use crate::errors::{self, ERR_INTERN, returns_errors, succeeded};
use crate::gather::everybodys;
use crate::generated::real;
use crate::handles;
use crate::redundancy::Redundancy;
use crate::world::{self, Part, World};
use crate::{checkpoint, disk, peers, told, user};
use bincode::config::standard;
use std::ffi::c_int;
use understudy_mpi::library;
use understudy_mpi::real_types::RealComm;

const NULL: RealComm = RealComm(std::ptr::null_mut());

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
}

/// The communicator of a newcomer's first generation, until its first recovery takes it.
static FIRST: Main<Option<RealComm>> = Main::new(None);

/// See [`FIRST`].
pub fn take_first() -> Option<RealComm> {
    FIRST.take()
}

/// Who is in a generation.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
struct Member {
    /// The process's number, by which the job knows it.
    number: u32,
    /// How much it knows of the job: nothing (0), more and more by what a dead process has left, or everything ([`OLD`]).
    knows: u32,
}

/// It has been in the job before.
const OLD: u32 = u32::MAX;

impl Member {
    fn is_new(&self) -> bool {
        self.knows != OLD
    }
}

/// Who tells the newcomers of the job.
fn leader(members: &[Member]) -> Result<u32, c_int> {
    let most = members.iter().map(|member| member.knows).max().filter(|&most| most > 0);
    let first = members.iter().position(|member| Some(member.knows) == most);
    first.map(|rank| rank as u32).ok_or(ERR_INTERN)
}

/// The world of the library, and this process's own, ready for use.
fn new_worlds() -> Result<[RealComm; 2], c_int> {
    // What the program sees under these names may be duplicates.
    let [all, own] = [c"ompi_mpi_comm_world", c"ompi_mpi_comm_self"].map(|name| RealComm(library::object(name)));
    returns_errors(all);
    returns_errors(own);
    Ok([world::duplicate(all)?, world::duplicate(own)?])
}

/// One communicator of all processes of the generation that has begun. Newcomers are told of the job.
pub fn gather_all() -> Result<RealComm, c_int> {
    let [control, own] = new_worlds()?;
    world::update(|world| (world.own, world.workers, world.private) = (own, NULL, NULL));
    let number = world::get().launcher_rank;
    let members = everybodys(control, &Member { number, knows: OLD })?;
    if members.iter().any(Member::is_new) {
        greet(control, &members)?;
    }
    Ok(control)
}

/// Tells newcomers of the job, and hears of their places.
fn greet(control: RealComm, members: &[Member]) -> Result<(), c_int> {
    share(control, leader(members)?, welcome())?;
    let places = domains::meet(control);
    compare(control);
    let (_, me) = world::size_and_rank(control);
    let own = places.all()[me as usize];
    for (member, place) in members.iter().zip(places.all()).filter(|(member, _)| member.is_new()) {
        peers::add(place, member.number, &own);
        told::grow_to(member.number + 1);
        world::update(|world| note_node(&mut world.nodes, member.number, place));
    }
    Ok(())
}

/// What a newcomer has to know.
pub fn welcome() -> Vec<u8> {
    bincode::encode_to_vec(welcome_of(), standard()).unwrap_or_default()
}

/// The same as this process knows it.
fn welcome_of() -> Welcome {
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
    }
}

/// The bytes of process `root`, for everybody.
fn share(comm: RealComm, root: u32, mut text: Vec<u8>) -> Result<Vec<u8>, c_int> {
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

fn note_node(nodes: &mut Vec<u64>, number: u32, place: &Place) {
    nodes.resize(nodes.len().max(number as usize + 1), 0);
    nodes[number as usize] = place.node;
}

/// A part cannot be taken by a process whose address space differs.
fn compare(control: RealComm) {
    if let Some(difference) = user::compare_layout(control) {
        super::fail("a new process cannot take a part", &std::io::Error::other(difference));
    }
}

/// The newcomer's side: the job as it sees it. Nothing is known here that another failure could destroy: the process would
/// be started again.
pub fn come_in() -> World {
    match hear() {
        Ok(world) => world,
        Err(rc) => {
            log::info!("the first generation of this process has failed: {}", errors::text(rc));
            crate::sys::kill_self();
        }
    }
}

fn hear() -> Result<World, c_int> {
    let [control, own] = new_worlds()?;
    let number = told::launcher_rank();
    let knows = checkpoint::look_for_legacy();
    let members = everybodys(control, &Member { number, knows })?;
    let text = checkpoint::welcome_of_predecessor().unwrap_or_default();
    let text = share(control, leader(&members)?, text)?;
    let places: Places = domains::meet(control);
    compare(control);
    let (_, me) = world::size_and_rank(control);
    let own_place = places.all()[me as usize];
    let (told, _) = bincode::decode_from_slice::<Welcome, _>(&text, standard()).map_err(|_| ERR_INTERN)?;
    let mut nodes = told.nodes;
    for (member, place) in members.iter().zip(places.all()) {
        if member.number != number {
            peers::add(place, member.number, &own_place);
        }
        told::grow_to(member.number + 1);
        note_node(&mut nodes, member.number, place);
    }
    deaths::learn(told.deaths);
    if let Some(disk) = told.disk {
        disk::join(disk, told.workers);
    }
    FIRST.set(Some(control));
    Ok(World {
        control,
        workers: NULL,
        private: NULL,
        own,
        part: Part::Spare,
        launcher_rank: number,
        worker_count: told.workers,
        spare_count: told::launcher_size() - told.workers,
        redundancy: told.redundancy,
        nodes,
        protected: true,
        finalized: false,
        recoveries: told.recoveries,
        players: told.players,
        living: told.living,
    })
}
