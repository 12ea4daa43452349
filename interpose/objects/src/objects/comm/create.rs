//! Creation of communicators, from a real constructor to an entry in the table.
//!
//! [`make`] runs the constructor and collects the data of the recipe; the members exchange these
//! data on the new communicator. The tables do not change until [`make`] has succeeded, so a
//! failure at any point leaves them as they are. [`register`] then enters the new communicator, and
//! cannot fail.
#![allow(unsafe_code)]

use super::communicator::Comm;
use super::predefined_comms::null_real;
use super::spawned::{self, own_group, remote_group, with_group};
use super::spawned_worker::is_spawned;
use super::{Topology, freed, hints};
use crate::Runtime;
use crate::errors;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtGroup, real_comm, real_group};
use crate::objects::tool::written;
use crate::objects::{objects, objects_mut};
use std::ffi::{CStr, c_int};
use understudy_mpi::comm::Extreme;
use understudy_mpi::plain::Plain;
use understudy_mpi::real_types::RealComm;
use understudy_mpi::{self as mpi, check};
use understudy_numbers::{Worker, WorkerList};
use understudy_policy::communicator_plan::{derived_uid, next_uid};

/// New communicator that is not yet in the table.
pub struct NewComm {
    real: RealComm,
    recipe: Comm,
}

/// Runs a constructor, and collects the data of the recipe.
///
/// `made` stays empty if this process gets `MPI_COMM_NULL`. The call is collective over the members
/// of the new communicator.
///
/// A call that creates an intracommunicator of workers also removes [freed](super::freed)
/// communicators. A communicator is removed if its members are all in the new communicator, have
/// all freed it, and have no requests on it.
pub fn make(
    rt: &Runtime,
    constructor: impl FnOnce(&mut RealComm) -> c_int,
    has_requests: impl Fn(VirtComm) -> bool,
    made: &mut Option<NewComm>,
) -> c_int {
    let mut new = null_real(rt);
    let rc = constructor(&mut new);
    if rc != errors::SUCCESS || new.0.is_null() || new == null_real(rt) {
        return rc;
    }
    new.return_errors();
    match describe(rt, new, has_requests) {
        Ok(recipe) => {
            *made = Some(NewComm { real: new, recipe });
            errors::SUCCESS
        }
        Err(error) => {
            // SAFETY: a communicator of the runtime, which no other code has.
            unsafe { real::PMPI_Comm_free(&mut new) };
            error.code()
        }
    }
}

/// Enters a communicator in the table, with the error handler and the session of `parent`.
pub fn register(rt: &Runtime, made: NewComm, parent: VirtComm) -> VirtComm {
    let (errhandler, session) = (
        super::comm_entries::errhandler(rt, parent),
        super::comm_entries::session(rt, parent),
    );
    let index = objects_mut(rt).comms.insert(Comm {
        errhandler,
        session,
        ..made.recipe
    });
    handles::set_real(rt, HandleKind::Comm, index, made.real.0);
    super::predefined_comms::handle(rt, index)
}

/// Enters a communicator that has no real communicator, with the members of `parent`.
///
/// The entry contains the members of a window with spawned processes. A real communicator cannot
/// be created, since the spawned processes do not have the runtime and would not take part.
pub fn register_members(rt: &Runtime, parent: VirtComm) -> Option<VirtComm> {
    let recipe = super::comm_entries::get(rt, parent)?.clone();
    let uid = proposed_uid(rt);
    let duplicate = recipe.duplicate(uid, written::changes(rt));
    let index = objects_mut(rt).comms.insert(duplicate);
    Some(super::predefined_comms::handle(rt, index))
}

/// Duplicate that `MPI_Comm_idup` is creating, with the storage that the library writes to.
///
/// The recipe of the duplicate is in the table already.
pub struct PendingDuplicate {
    /// Index in the table.
    pub index: u32,
    /// New communicator, once it exists.
    pub real: RealComm,
    /// Number that the first member has chosen, or that all members have derived.
    ///
    /// Zero until the first member's number has been received. If spawned processes are members,
    /// each worker chooses its own number.
    pub uid: u64,
}

impl PendingDuplicate {
    /// Enters the duplicate of `parent` in the table.
    ///
    /// Local, since all data except the `uid` are those of the parent. The `uid` of an
    /// intercommunicator's duplicate is derived, since no single member could send it to both
    /// groups; `None` if it cannot be derived.
    pub fn new(rt: &Runtime, parent: VirtComm) -> Option<Box<PendingDuplicate>> {
        let recipe = super::comm_entries::get(rt, parent)?.clone();
        let is_first = super::rank_and_size(rt, parent).is_some_and(|(rank, _)| rank == 0);
        let uid = if recipe.remote.is_some() && !recipe.has_spawned() {
            let number = recipe.derived_numbers + 1;
            let uid = derived_uid(recipe.uid, number)?;
            super::comm_entries::get_mut(rt, parent)?.derived_numbers = number;
            uid
        } else if is_first || recipe.has_spawned() {
            proposed_uid(rt)
        } else {
            0
        };
        let duplicate = recipe.duplicate(uid, written::changes(rt));
        let index = objects_mut(rt).comms.insert(duplicate);
        let real = null_real(rt);
        Some(Box::new(PendingDuplicate { index, real, uid }))
    }

    /// Completes the entry of a duplicate that the library has created.
    ///
    /// All members must have the duplicate's `uid`.
    pub fn finish(&self, rt: &Runtime) {
        self.real.return_errors();
        let (info, name) = (hints::hints_of_comm(rt, self.real), hints::name(self.real));
        if let Some(comm) = objects_mut(rt).comms.get_mut(self.index) {
            (comm.uid, comm.info) = (self.uid, info);
            comm.name.get_or_insert(name);
        }
        handles::set_real(rt, HandleKind::Comm, self.index, self.real.0);
    }
}

/// Returns the `uid` that this process proposes for the next communicator that it leads.
fn proposed_uid(rt: &Runtime) -> u64 {
    next_uid(
        rt.objects.comm.state.borrow().me,
        objects(rt).comms.iter().map(|(_, comm)| comm.uid),
    )
}

/// Data about the new communicator that one member sends to the other members.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MemberData {
    /// Rank of the member in `MPI_COMM_WORLD`.
    worker: u64,
    /// `uid` that the member proposes.
    uid: u64,
    /// Member's share of the sum of freed communicators ([`freed::freed_within`]).
    freed_share: u64,
}

// SAFETY: the structure consists of integers, without padding, so any bytes are a valid value.
unsafe impl Plain for MemberData {}

/// Numbers and members of a new communicator that all members agree on.
struct CommIdentity {
    uid: u64,
    members: Vec<Worker>,
    remote: Option<Vec<Worker>>,
}

fn describe(
    rt: &Runtime,
    new: RealComm,
    has_requests: impl Fn(VirtComm) -> bool,
) -> mpi::Result<Comm> {
    let mut inter = 0;
    // SAFETY: a query of a valid communicator, with a variable for the result.
    check(unsafe { real::PMPI_Comm_test_inter(new, &mut inter) })?;
    let members_of =
        |procedure| with_group(rt, new, procedure, |group| spawned::members(rt, group));
    let own = members_of(own_group)?;
    let remote = match inter {
        0 => None,
        _ => Some(members_of(remote_group)?),
    };
    let has_spawned = own
        .iter()
        .chain(remote.iter().flatten())
        .copied()
        .any(is_spawned);
    let CommIdentity {
        uid,
        members,
        remote,
    } = if has_spawned {
        // Spawned processes do not have the runtime, so the members cannot agree on a number.
        CommIdentity {
            uid: proposed_uid(rt),
            members: own,
            remote,
        }
    } else if inter == 0 {
        let (freed, share) = match freed::freed_within(rt, None, |_| false).0.is_empty() {
            true => (Vec::new(), 0),
            false => freed::freed_within(rt, Some(&own), has_requests),
        };
        let all = exchange(rt, new, proposed_uid(rt), share)?;
        let shares = all.iter().map(|member| member.freed_share);
        if shares.fold(0, u64::wrapping_add) == 0 {
            freed::remove(rt, &freed);
        }
        CommIdentity {
            uid: leader_uid(&all)?,
            members: workers(&all),
            remote: None,
        }
    } else {
        describe_inter(rt, new, own)?
    };
    let all = rt.objects.comm.state.borrow().workers as usize;
    let collective_over_all =
        remote.is_none() && members.len() == all && !members.iter().copied().any(is_spawned);
    let name = Some(hints::name(new)).filter(|name| !name.is_empty());
    let (topology, info) = (Topology::read(new)?, hints::hints_of_comm(rt, new));
    let (errhandler, attributes) = (0, Vec::new());
    Ok(Comm {
        uid,
        members: members.into(),
        remote: remote.map(WorkerList::from),
        topology,
        name,
        errhandler,
        attributes,
        info,
        collective_over_all,
        derived_numbers: 0,
        collectives: 0.into(),
        variable_changes: written::changes(rt),
        first_collectives: Vec::new(),
        session: 0,
        is_freed: false,
    })
}

/// Gathers the data of all members, or of all members of the remote group.
///
/// Collective over `comm`.
fn exchange(
    rt: &Runtime,
    comm: RealComm,
    uid: u64,
    freed_share: u64,
) -> mpi::Result<Vec<MemberData>> {
    comm.gather(&[MemberData {
        worker: u64::from(rt.objects.comm.state.borrow().me.0),
        uid,
        freed_share,
    }])
}

/// Returns the `uid` that the member of rank 0 proposes.
fn leader_uid(all: &[MemberData]) -> mpi::Result<u64> {
    all.first()
        .map(|leader| leader.uid)
        .ok_or(mpi::Error::INTERN)
}

fn workers(all: &[MemberData]) -> Vec<Worker> {
    all.iter()
        .map(|member| Worker(member.worker as u32))
        .collect()
}

/// Selects the lower one of the `uid`s that the leaders of the two groups propose.
///
/// An allgather of an intercommunicator delivers the data of the other group only. The first
/// allgather therefore delivers the proposal of the other group's leader. In the second allgather
/// each process sends that proposal back, which delivers the proposal of this group's leader.
fn describe_inter(rt: &Runtime, new: RealComm, own: Vec<Worker>) -> mpi::Result<CommIdentity> {
    let remote = exchange(rt, new, proposed_uid(rt), 0)?;
    let remote_uid = leader_uid(&remote)?;
    let local_uid = leader_uid(&exchange(rt, new, remote_uid, 0)?)?;
    Ok(CommIdentity {
        uid: local_uid.min(remote_uid),
        members: own,
        remote: Some(workers(&remote)),
    })
}

/// End of the tags that are derived from strings; the standard guarantees these tags (9.1.2).
const TAG_LIMIT: u32 = 1 << 15;

/// Returns a tag for the string tag of a constructor: its FNV-1a hash.
pub fn tag_of(name: &CStr) -> c_int {
    let mix = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    (name.to_bytes().iter().fold(0x811c_9dc5, mix) % TAG_LIMIT) as c_int
}

/// Creates a communicator of a group to which this process belongs.
///
/// The parent of the communicator is the world communicator, so the program needs no parent.
pub fn create_of_group(rt: &Runtime, group: VirtGroup, tag: c_int, new: &mut RealComm) -> c_int {
    // SAFETY: a valid communicator and a variable for the result; the library checks the group,
    // which is null if `group` is invalid.
    unsafe {
        real::PMPI_Comm_create_group(
            real_comm(rt, super::predefined_comms::world_handle(rt)),
            real_group(rt, group),
            tag,
            new,
        )
    }
}

/// Creates an intercommunicator between the local group and a remote one.
///
/// This process belongs to the local group, and `local_leader` is the rank of that group's leader.
/// Only the leader uses `remote_leader`; an error at the leader is returned by all members.
pub fn create_between_groups(
    rt: &Runtime,
    (local_group, local_leader): (VirtGroup, c_int),
    remote_leader: Result<Option<Worker>, c_int>,
    tag: c_int,
    new: &mut RealComm,
) -> c_int {
    let mut local = null_real(rt);
    match create_of_group(rt, local_group, tag, &mut local) {
        errors::SUCCESS => local.return_errors(),
        rc => return rc,
    }
    let bridge = rt.objects.comm.state.borrow().bridge.unwrap_or(local);
    let mut create = |remote_leader: Option<Worker>| {
        let remote_leader = remote_leader.map_or(0, |leader| leader.0 as c_int);
        // SAFETY: communicators of the runtime; only the leader uses the bridge and the remote
        // leader.
        unsafe {
            real::PMPI_Intercomm_create(local, local_leader, bridge, remote_leader, BRIDGE_TAG, new)
        }
    };
    let rc = match share_error(local, remote_leader) {
        Ok(remote_leader) => create(remote_leader),
        Err(rc) => rc,
    };
    // SAFETY: the communicator was created above.
    match unsafe { real::PMPI_Comm_free(&mut local) } {
        _ if rc != errors::SUCCESS => rc,
        freed => freed,
    }
}

/// Returns an error in all members if any member passes an error.
///
/// Without this exchange the other members would block in the next collective.
fn share_error<T>(comm: RealComm, own: Result<T, c_int>) -> Result<T, c_int> {
    let code = own.as_ref().err().map_or(0, |&code| code as u64);
    let codes = comm.allreduce_min_max(Extreme::Greatest, &[code]);
    match codes.map_err(|error| error.code())?.first() {
        Some(&code @ 1..) => Err(code as c_int),
        _ => own,
    }
}

/// Tag of `MPI_Intercomm_create` on the runtime's own communicator of all workers.
pub(super) const BRIDGE_TAG: c_int = 17;
