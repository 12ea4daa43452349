//! End of a cut at which a node leaves the job (`understudy drain`).
//!
//! The workers of the node stand still from the cut on, so they have no effects after it. When all
//! workers have committed, those of the node report that, and the leader kills them.

use crate::arch::Rewound;
use crate::{Runtime, checkpoint, recovery};
use crate::{copies, reinit, user, world};
use std::time::{Duration, Instant};
use understudy_mpi::{Error, call};
use understudy_numbers::Worker;

/// Time after which a worker that stands still reports that again.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Message for a failed exchange.
const NO_COMMIT: &str = "the workers cannot wait for the commit of a checkpoint";

/// A node that leaves the job at this cut.
pub(super) struct LeavingNode {
    /// Number of the order to leave.
    order: u32,
    node: u64,
    is_own: bool,
    /// True if other nodes have the replicas of all workers of the node.
    is_replicated: bool,
}

impl LeavingNode {
    /// Returns the node of a worker; all workers compute equal results.
    pub fn of(rt: &Runtime, order: u32, leaver: Worker) -> LeavingNode {
        let world = world::get(rt);
        let node = world.node_of(leaver);
        // Other workers are domains of their own, and only those of the node can be lost.
        let domain = |worker: Worker| match world.node_of(worker) == node {
            true => u32::MAX,
            false => worker.0,
        };
        let domains: Vec<u32> = Worker::all(world.worker_count).map(domain).collect();
        let lost = world.redundancy.lost_with_domain(&domains);
        LeavingNode {
            order,
            node,
            is_own: node == world.node_of(world::worker(rt)),
            is_replicated: !lost.iter().any(|worker| world.node_of(*worker) == node),
        }
    }

    /// True if the node is that of this worker.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Waits for the commit of this cut, and on the leaving node for the end.
    ///
    /// Returns if the node cannot leave. Collective over all workers.
    pub fn conclude(&self, rt: &Runtime) -> Result<(), Rewound> {
        checkpoint::finish(rt)?;
        recovery::check_own(rt, world::private(rt).sleeping_barrier(), NO_COMMIT)?;
        if self.is_replicated {
            recovery::note_departure(rt, self.node, copies::committed_epoch(rt));
        }
        if self.is_own {
            user::flush_output();
            self.await_end(rt)?;
            user::resume_threads(rt);
            recovery::resume_devices(rt);
        }
        Ok(())
    }

    fn await_end(&self, rt: &Runtime) -> Result<(), Rewound> {
        let mut reported: Option<Instant> = None;
        while !call::is_over() {
            if reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                reinit::report_can_leave(self.order, self.is_replicated);
                reported = Some(Instant::now());
            }
            // An order may reach this process later than others of the node.
            if !self.is_replicated || reinit::leave_order() > self.order {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        recovery::check_own(rt, Err(Error::ABANDONED), NO_COMMIT)
    }
}
