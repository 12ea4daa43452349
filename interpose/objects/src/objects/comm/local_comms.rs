//! Handles and cached properties of communicators, which belong to this process and are not saved.

use crate::handles::VirtComm;
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// State of communicators other than their recipes.
pub struct LocalComms {
    pub(super) state: StateCell<WorldComms>,
    /// Most recent query result; always equal to the table's data.
    pub(super) recent: Cell<RecentComm>,
}

impl LocalComms {
    /// Returns the state at the start of the process.
    pub const fn start() -> LocalComms {
        LocalComms {
            state: StateCell::new(WorldComms {
                world: VirtComm(std::ptr::null_mut()),
                world_symbol: usize::MAX,
                self_: VirtComm(std::ptr::null_mut()),
                self_symbol: usize::MAX,
                real_self: RealComm(std::ptr::null_mut()),
                workers: 0,
                me: Worker(0),
                bridge: None,
            }),
            recent: Cell::new(NO_RECENT),
        }
    }

    /// Discards the most recent query result, since communicators are removed or replaced.
    pub(super) fn discard_recent(&self) {
        self.recent.set(NO_RECENT);
    }
}

/// Handles and real communicators of `MPI_COMM_WORLD` and `MPI_COMM_SELF`, which are not saved.
pub(super) struct WorldComms {
    /// Program's handle of `MPI_COMM_WORLD`, and the index of its data symbol.
    pub(super) world: VirtComm,
    pub(super) world_symbol: usize,
    /// Program's handle of `MPI_COMM_SELF`, and the index of its data symbol.
    pub(super) self_: VirtComm,
    pub(super) self_symbol: usize,
    /// Self communicator of the real library; the program uses a duplicate of it.
    pub(super) real_self: RealComm,
    /// Number of workers.
    pub(super) workers: u32,
    /// This worker.
    pub(super) me: Worker,
    /// Runtime's own communicator of all workers, which the program does not see.
    pub(super) bridge: Option<RealComm>,
}

/// Cached answers to frequent queries about one communicator.
#[derive(Clone, Copy)]
pub(super) struct RecentComm {
    pub(super) handle: u64,
    pub(super) index: u32,
    /// True for an intracommunicator of all workers.
    pub(super) spans_all: bool,
    /// Rank of this process in the local group, and the group's size.
    ///
    /// `None` if this process is not a member.
    pub(super) rank_and_size: Option<(c_int, c_int)>,
    /// Worker at rank 0 of the group that messages are sent to.
    pub(super) first_worker: Worker,
    /// Number of ranks of that group, from rank 0 on, whose workers have consecutive numbers.
    ///
    /// For these ranks the worker is `first_worker` plus the rank.
    pub(super) consecutive_ranks: u32,
}

pub(super) const NO_RECENT: RecentComm = RecentComm {
    handle: u64::MAX,
    index: u32::MAX,
    spans_all: false,
    rank_and_size: None,
    first_worker: Worker(0),
    consecutive_ranks: 0,
};
