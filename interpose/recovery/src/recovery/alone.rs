//! Nodes without survivors: information that is lost with them.
//!
//! A node's memory has the position of a failed process's relay, and the process's changes of files
//! since the cut. A living process of the node reads them. If the node has no living process, the
//! consequences are reported to the user.

use crate::Runtime;
use crate::{sys, world};
use understudy_catalogue::message;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_policy::recovery_plan::{Identity, Plan};

/// Records the workers that failed on nodes without survivors.
///
/// The worker table must still be that from before the failure.
pub fn note(rt: &Runtime, living: &[Identity], plan: &Plan) {
    let world = world::get(rt);
    let living: Vec<ProcessNumber> = living.iter().map(|living| living.process).collect();
    let dead = plan.takeovers.iter().map(|takeover| takeover.worker);
    let dead: Vec<_> = dead
        .map(|worker| (worker, world.players[worker.index()]))
        .collect();
    rt.recovery
        .alone
        .set(without_neighbour(&dead, &living, &world.nodes));
}

/// Returns the failed workers on whose node no process lives.
///
/// `dead` has each worker with its process.
fn without_neighbour(
    dead: &[(Worker, ProcessNumber)],
    living: &[ProcessNumber],
    nodes: &[u64],
) -> Vec<Worker> {
    let node = |process: ProcessNumber| nodes.get(process.index());
    let is_alone = |rank: ProcessNumber| !living.iter().any(|&other| node(other) == node(rank));
    let alone = dead.iter().filter(|(_, rank)| is_alone(*rank));
    alone.map(|(worker, _)| *worker).collect()
}

pub fn tell(rt: &Runtime) {
    let alone: Vec<u32> = rt
        .recovery
        .alone
        .borrow()
        .iter()
        .map(|worker| worker.0)
        .collect();
    if !alone.is_empty() {
        sys::say(message::node_without_survivors(alone));
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessNumber, Worker};

    fn without_neighbour(dead: &[(u32, u32)], living: &[u32], nodes: &[u64]) -> Vec<u32> {
        let dead: Vec<_> = dead
            .iter()
            .map(|&(worker, process)| (Worker(worker), ProcessNumber(process)))
            .collect();
        let living: Vec<_> = living.iter().copied().map(ProcessNumber).collect();
        let alone = super::without_neighbour(&dead, &living, nodes);
        alone.into_iter().map(|worker| worker.0).collect()
    }

    #[test]
    fn a_newcomer_is_a_neighbour_too() {
        let nodes = [1, 1, 2, 2, 3, 3];
        assert_eq!(
            without_neighbour(&[(0, 0), (1, 1)], &[2, 3, 4, 5], &nodes),
            [0, 1]
        );
        assert!(without_neighbour(&[(0, 0)], &[1, 2, 3], &nodes).is_empty());
        // Process 5, a former spare, is worker 1; process 4 on its node has just joined.
        assert_eq!(
            without_neighbour(&[(1, 5), (2, 2)], &[0, 1, 4], &nodes),
            [2]
        );
    }
}
