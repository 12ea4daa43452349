//! Processes that join the running job.
//!
//! The processes were spares, or the leader had them started because no spare was left. After the
//! initialisation of the MPI library all processes meet, and a process that was in the job before
//! sends the state of the job. If all workers have died at once, the state is in the replicas of
//! dead processes (`copies::read_passed_store`).

use super::death_history::Death;
use super::deaths;
use crate::Runtime;
use crate::domains::{self, ProcessLocation, ProcessLocations};
use crate::gather::gather_from_all;
use crate::schedule::{self, Failures};
use crate::world::{self, Role, World};
use crate::{abort, copies, disk, peers, process_info, system_calls, user};
use bincode::config::standard;
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{NumberList, ProcessNumber, Rank};
use understudy_policy::redundancy::Redundancy;

/// State of the job that a joining process needs.
#[derive(bincode::Encode, bincode::Decode)]
pub struct JobState {
    pub workers: u32,
    pub processes: NumberList<ProcessNumber>,
    /// Nodes of consecutive processes, each with the number of these processes.
    nodes: Vec<(u64, u32)>,
    pub recoveries: u32,
    pub redundancy: Redundancy,
    pub deaths: Vec<Death>,
    /// Belief about failures, which determines intervals.
    pub failures: Failures,
    pub disk: Option<disk::DiskInfo>,
}

/// Returns the communicator of a joining process's first generation, once.
pub fn take_first(rt: &Runtime) -> Option<RealComm> {
    rt.recovery.first_communicator.take()
}

/// Member of a generation.
#[derive(Clone, Copy, bincode::Encode, bincode::Decode)]
struct Member {
    /// Number of the process in the job.
    number: ProcessNumber,
    job_state: AvailableJobState,
    /// Number of recoveries that the process has seen, including the present one.
    ///
    /// Zero in a new process.
    recoveries: u32,
}

/// Information that a process has about the job; a greater value is more recent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
enum AvailableJobState {
    Nothing,
    /// State that a dead process has left, after this number of recoveries.
    Left(u32),
    /// The process was in the job before.
    All,
}

impl Member {
    fn is_new(&self) -> bool {
        self.job_state != AvailableJobState::All
    }
}

/// Returns the member that sends the job's state to the joining processes.
fn sender_of_job_state(members: &[Member]) -> mpi::Result<Rank> {
    let most = members.iter().map(|member| member.job_state).max();
    let most = most.filter(|&most| most != AvailableJobState::Nothing);
    let first = members
        .iter()
        .position(|member| Some(member.job_state) == most);
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
        job_state: AvailableJobState::All,
        recoveries: world.recoveries,
    };
    let members = gather_from_all(all, &own)?;
    // Some processes may have seen the last recovery succeed, and others not.
    world::update(rt, |world| world.recoveries = recoveries(&members));
    if members.iter().any(Member::is_new) {
        send_job_state(rt, all, &members)?;
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
fn send_job_state(rt: &Runtime, all: RealComm, members: &[Member]) -> mpi::Result<()> {
    all.broadcast_bytes(sender_of_job_state(members)?, encoded_job_state(rt))?;
    let places = domains::gather_locations(all)?;
    require_equal_layout(rt, all)?;
    let places = members.iter().zip(places.all());
    let new = places.filter(|(member, _)| member.is_new());
    world::update(rt, |world| {
        record_places(
            &mut world.nodes,
            new.map(|(member, place)| (member.number, place)),
        )
    });
    Ok(())
}

/// Returns the encoded state of the job that a joining process needs.
pub fn encoded_job_state(rt: &Runtime) -> Vec<u8> {
    bincode::encode_to_vec(job_state(rt), standard()).unwrap_or_default()
}

/// Returns the state of the job in the view of this process.
fn job_state(rt: &Runtime) -> JobState {
    let world = world::get(rt);
    JobState {
        workers: world.worker_count,
        processes: world.process_of.clone().into(),
        nodes: runs_of_nodes(&world.nodes),
        recoveries: world.recoveries,
        redundancy: world.redundancy.clone(),
        deaths: deaths::earlier(rt),
        failures: schedule::state(rt).pace.failures(),
        disk: disk::disk_info(rt),
    }
}

fn runs_of_nodes(nodes: &[u64]) -> Vec<(u64, u32)> {
    let runs = nodes.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len() as u32)).collect()
}

fn nodes_of_runs(runs: &[(u64, u32)]) -> Vec<u64> {
    let nodes = |&(node, count): &(u64, u32)| std::iter::repeat_n(node, count as usize);
    runs.iter().flat_map(nodes).collect()
}

/// Records the places of these processes.
pub fn record_places<'a>(
    nodes: &mut Vec<u64>,
    places: impl Iterator<Item = (ProcessNumber, &'a ProcessLocation)>,
) {
    let own = domains::own_location();
    for (number, place) in places {
        peers::add(place, number, &own);
        process_info::update_process_count(number.0 + 1);
        nodes.resize(nodes.len().max(number.index() + 1), 0);
        nodes[number.index()] = place.node;
    }
}

/// Ends the job if address spaces differ, since the process could not take over.
fn require_equal_layout(rt: &Runtime, all: RealComm) -> mpi::Result<()> {
    let Some(difference) = user::compare_layout(rt, all)? else {
        return Ok(());
    };
    if all.rank()? == Rank(0) {
        system_calls::print_message(message::replacement_differs(difference));
    }
    // An abort by any process ends all other processes, so the message is printed before the first
    // abort.
    all.barrier()?;
    abort::abort(rt, understudy_catalogue::exit_status::STATE_NOT_SAVED)
}

/// Joins the running job as a new process; returns the state of the world.
///
/// Ends the process if its first generation fails: the process has no state to lose, and the leader
/// has another one started.
pub fn join(rt: &Runtime) -> World {
    match try_join(rt) {
        Ok(world) => world,
        Err(error) => {
            log::info!("the first MPI instance of this process has failed: {error}");
            crate::system_calls::kill_self();
        }
    }
}

fn try_join(rt: &Runtime) -> mpi::Result<World> {
    let [all, own] = new_worlds()?;
    let number = process_info::process();
    let job_state =
        copies::read_passed_store(rt).map_or(AvailableJobState::Nothing, AvailableJobState::Left);
    let own_member = Member {
        number,
        job_state,
        recoveries: 0,
    };
    let members = gather_from_all(all, &own_member)?;
    let bytes = copies::job_state_of_predecessor(rt).unwrap_or_default();
    let bytes = all.broadcast_bytes(sender_of_job_state(&members)?, bytes)?;
    let places: ProcessLocations = domains::gather_locations(all)?;
    require_equal_layout(rt, all)?;
    let (job_state, _) = bincode::decode_from_slice::<JobState, _>(&bytes, standard())
        .map_err(|_| mpi::Error::INTERN)?;
    let mut nodes = nodes_of_runs(&job_state.nodes);
    let numbers = members.iter().map(|member| member.number);
    record_places(&mut nodes, numbers.zip(places.all()));
    deaths::set_earlier(rt, job_state.deaths);
    schedule::state(rt).pace.adopt(job_state.failures);
    if let Some(disk) = job_state.disk {
        disk::join(rt, disk, job_state.workers);
    }
    rt.recovery.first_communicator.set(Some(all));
    Ok(World {
        workers: RealComm::NONE,
        private: RealComm::NONE,
        own,
        role: Role::Joining,
        process: number,
        worker_count: job_state.workers,
        redundancy: job_state.redundancy,
        nodes,
        protected: true,
        finalized: false,
        // The members count the present recovery already. This process adds the recovery when it
        // begins to recover.
        recoveries: recoveries(&members)
            .checked_sub(1)
            .unwrap_or(job_state.recoveries),
        process_of: job_state.processes.into(),
    })
}
