//! Recipes of communicators.

use super::spawned_worker::is_spawned;
use super::topology::Topology;
use crate::objects::attribute::value::Attributes;
use std::cell::Cell;
use understudy_numbers::{Worker, WorkerList};
use understudy_policy::communicator_plan::FirstCollectives;

pub const WORLD: u32 = 0;
pub const SELF: u32 = 1;

/// `uid` of `MPI_COMM_WORLD`; the `uid`s of created communicators are greater.
pub const WORLD_UID: u64 = 0;

/// `uid` of `MPI_COMM_SELF`.
///
/// Each process has its own `MPI_COMM_SELF`, all with this number.
pub const SELF_UID: u64 = u64::MAX;

/// Recipe of a communicator, and the values that the program has attached to it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Comm {
    /// Number that all members give to this communicator, and to no other existing communicator.
    ///
    /// The value is `worker rank of the member that chose it << 40 | number`, or is derived as in
    /// [`derived_uid`](understudy_policy::communicator_plan::derived_uid). If spawned processes are
    /// members, each worker chooses its own number.
    pub uid: u64,
    /// Members of the local group in the order of their ranks, as ranks of `MPI_COMM_WORLD`.
    ///
    /// May contain [spawned](super::spawned) processes, as may `remote`.
    pub members: WorkerList,
    /// Members of the remote group of an intercommunicator.
    pub remote: Option<WorkerList>,
    pub topology: Topology,
    /// Name that the program or the library has set. C strings need not be UTF-8.
    pub name: Option<Vec<u8>>,
    /// Program's handle of the error handler; zero if none has been set.
    pub errhandler: u64,
    /// Attributes: keys and values.
    pub attributes: Attributes,
    /// Hints (MPI 4.1, 7.4.4): keys and values.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
    /// True for an intracommunicator of all workers.
    pub collective_over_all: bool,
    /// Number of objects whose numbers were derived from `uid`.
    ///
    /// Such objects are persistent collectives, and non-blocking duplicates of an
    /// intercommunicator.
    pub derived_numbers: u64,
    /// Number of blocking collectives that this process has entered on this communicator.
    ///
    /// Zero if every worker is a member.
    pub collectives: Cell<u64>,
    /// Number of changes of control variables before the creation; see `tool::written`.
    pub variable_changes: u64,
    /// [First collectives](super::first_collectives), which MPICH counts on each communicator.
    pub first_collectives: FirstCollectives,
    /// Program's handle of the communicator's session; zero for the World Model.
    pub session: u64,
    /// True if this process has freed the communicator: see [`freed`](super::freed).
    pub is_freed: bool,
}

impl Comm {
    /// Iterates over the members of both groups.
    pub fn workers(&self) -> impl Iterator<Item = Worker> + '_ {
        self.members
            .iter()
            .chain(self.remote.iter().flatten())
            .copied()
    }

    /// Returns the recipe of a duplicate.
    ///
    /// The name, attributes and counts of the original are not copied.
    pub(super) fn duplicate(self, uid: u64, variable_changes: u64) -> Comm {
        Comm {
            uid,
            variable_changes,
            name: None,
            attributes: Vec::new(),
            derived_numbers: 0,
            collectives: Cell::new(0),
            first_collectives: Vec::new(),
            ..self
        }
    }

    /// True if spawned processes are in the communicator.
    ///
    /// Such a communicator is never rebuilt: no cut is taken while it exists.
    pub fn has_spawned(&self) -> bool {
        self.workers().any(is_spawned)
    }

    /// Returns the member with the next higher number; the first member follows the last one.
    pub(super) fn next_member(&self, me: Worker) -> Worker {
        let next = self.workers().filter(|&worker| worker > me).min();
        next.or_else(|| self.workers().min()).unwrap_or(me)
    }
}
