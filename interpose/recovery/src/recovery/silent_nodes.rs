//! Nodes without survivors: information that is lost with them.
//!
//! The memory of a node contains two facts about a failed process of the node: how far the relay
//! has forwarded the process's output, and which changes of files the process has made since the
//! cut. A living process of the node reads these facts. If the node has no living process, the
//! consequences are reported to the user.

use crate::Runtime;
use crate::{system_calls, world};
use std::collections::HashSet;
use understudy_catalogue::message;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::{Plan, ProcessReport};

/// Records that a node leaves the job at a checkpoint.
pub fn note_departure(rt: &Runtime, node: u64, epoch: Epoch) {
    rt.recovery.departure.set(Some((node, epoch)));
}

/// Records the workers that failed on nodes without survivors.
///
/// Must be called before the plan changes the table of the workers' processes.
pub fn record(rt: &Runtime, living: &[ProcessReport], plan: &Plan) {
    let world = world::get(rt);
    let dead = plan.takeovers.iter().map(|takeover| takeover.worker);
    let departures: HashSet<(u64, Epoch)> = living
        .iter()
        .filter_map(|report| report.departure)
        .collect();
    let has_left = |worker: Worker| departures.contains(&(world.node_of(worker), plan.epoch));
    let dead: Vec<_> = dead
        .filter(|worker| !has_left(*worker))
        .map(|worker| (worker, world.process_of[worker.index()]))
        .collect();
    let living: Vec<ProcessNumber> = living.iter().map(|living| living.process).collect();
    rt.recovery
        .on_silent_nodes
        .set(workers_on_silent_nodes(&dead, &living, &world.nodes));
}

/// Returns the failed workers on whose node no process lives.
///
/// `dead` has each worker with its process.
fn workers_on_silent_nodes(
    dead: &[(Worker, ProcessNumber)],
    living: &[ProcessNumber],
    nodes: &[u64],
) -> Vec<Worker> {
    let node = |process: &ProcessNumber| nodes.get(process.index());
    let with_survivors: HashSet<Option<&u64>> = living.iter().map(node).collect();
    let alone = dead
        .iter()
        .filter(|(_, process)| !with_survivors.contains(&node(process)));
    alone.map(|(worker, _)| *worker).collect()
}

pub fn report(rt: &Runtime) {
    let alone: Vec<u32> = rt
        .recovery
        .on_silent_nodes
        .borrow()
        .iter()
        .map(|worker| worker.0)
        .collect();
    if !alone.is_empty() {
        system_calls::print_message(message::node_without_survivors(alone));
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
        let alone = super::workers_on_silent_nodes(&dead, &living, nodes);
        alone.into_iter().map(|worker| worker.0).collect()
    }

    #[test]
    fn a_joining_process_is_a_neighbour() {
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
