//! Handles and answers about communicators that belong to this process and are not saved.

use crate::cell::Field;
use crate::handles::VirtComm;
use std::cell::Cell;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Communicators, but for their recipes.
pub struct LocalComms {
    pub(super) state: Field<WorldComms>,
    /// Always what the table would tell.
    pub(super) recent: Cell<RecentComm>,
}

impl LocalComms {
    /// State at the start of the process.
    pub const fn start() -> LocalComms {
        LocalComms {
            state: Field::new(WorldComms {
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

    /// Forgets the communicator that was asked for last: communicators are removed or replaced.
    pub(super) fn forget_recent(&self) {
        self.recent.set(NO_RECENT);
    }
}

/// Handles and real communicators of the world, which are not saved.
pub(super) struct WorldComms {
    /// The program's handles of the two predefined communicators, and indices of their data
    /// symbols.
    pub(super) world: VirtComm,
    pub(super) world_symbol: usize,
    pub(super) self_: VirtComm,
    pub(super) self_symbol: usize,
    /// The real library's, behind which the program's is a duplicate.
    pub(super) real_self: RealComm,
    /// Number of workers, and the rank of this one among them.
    pub(super) workers: u32,
    pub(super) me: Worker,
    /// A communicator of all workers that the program does not know.
    pub(super) bridge: Option<RealComm>,
}

/// Answers to the frequent questions about one communicator.
#[derive(Clone, Copy)]
pub(super) struct RecentComm {
    pub(super) handle: u64,
    pub(super) index: u32,
    /// True for an intracommunicator of all workers.
    pub(super) spans_all: bool,
    /// Rank of this process in its own group, if it has one, and the group's size.
    pub(super) own: Option<(c_int, c_int)>,
    /// Worker behind the first rank that messages may name.
    ///
    /// `in_order` is the number of ranks from that one on behind which the next workers are, in
    /// order.
    pub(super) first: Worker,
    pub(super) in_order: u32,
}

pub(super) const NO_RECENT: RecentComm = RecentComm {
    handle: u64::MAX,
    index: u32::MAX,
    spans_all: false,
    own: None,
    first: Worker(0),
    in_order: 0,
};
