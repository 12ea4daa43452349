//! Adoption of the replica stores of dead processes.
//!
//! The store of a dead process is a set of memfds that its guardian still has open, so only a
//! process of the same node can adopt the store. The adopter must not have run a worker, and must
//! have no store of its own. If a node has more stores than possible adopters, a process is started
//! on the node for each remaining store, and the next generation waits for these processes.

use super::Job;
use crate::{Action, Node};
use std::collections::BTreeMap;
use understudy_messages::JobOrder;
use understudy_numbers::{Guardian, ProcessNumber};

impl Job {
    /// Starts processes on nodes with more replica stores than processes that can adopt a store.
    pub(super) fn start_adopters(&mut self) {
        let mut homes: BTreeMap<Node, Vec<Guardian>> = BTreeMap::new();
        for from in self.left_stores.values() {
            let at = self.members[from].at;
            homes.entry(self.nodes[&at]).or_default().push(at);
        }
        if homes.is_empty() {
            return;
        }
        for &number in &self.living {
            if let Some(node) = self.adoption_node(number) {
                homes.get_mut(&node).and_then(Vec::pop);
            }
        }
        // Without a guardian no process can be started on the node.
        homes.retain(|node, _| {
            self.guardians
                .iter()
                .any(|guardian| self.nodes[guardian] == *node)
        });
        homes
            .into_values()
            .flatten()
            .for_each(|home| self.start_next(home));
    }

    /// Returns the node of a process that can adopt a replica store; otherwise `None`.
    fn adoption_node(&self, number: ProcessNumber) -> Option<Node> {
        let member = &self.members[&number];
        (member.replicas_of.is_none() && !member.has_resumed).then(|| self.nodes[&member.at])
    }

    /// True if a process that is to adopt a replica store is not ready yet.
    pub(super) fn awaits_adopters(&self) -> bool {
        let mut missing: BTreeMap<Node, usize> = BTreeMap::new();
        for from in self.left_stores.values() {
            *missing
                .entry(self.nodes[&self.members[from].at])
                .or_default() += 1;
        }
        if missing.is_empty() {
            return false;
        }
        let ready = self.living.difference(&self.unready);
        for node in ready.filter_map(|&number| self.adoption_node(number)) {
            missing
                .entry(node)
                .and_modify(|count| *count = count.saturating_sub(1));
        }
        let unready_candidates = self
            .unready
            .iter()
            .filter_map(|&number| self.adoption_node(number));
        unready_candidates
            .into_iter()
            .any(|node| missing.get(&node).is_some_and(|&count| count > 0))
    }

    /// Assigns the replica stores of dead processes to ranks of the next generation.
    pub(super) fn assign_stores(&mut self, ranks: &[ProcessNumber]) {
        let stores = std::mem::take(&mut self.left_stores);
        if stores.is_empty() {
            return;
        }
        let mut adopters: BTreeMap<Node, Vec<ProcessNumber>> = BTreeMap::new();
        for &number in ranks.iter().rev() {
            if let Some(node) = self.adoption_node(number) {
                adopters.entry(node).or_default().push(number);
            }
        }
        for (worker, from) in stores {
            let node = self.nodes[&self.members[&from].at];
            let Some(adopter) = adopters.get_mut(&node).and_then(Vec::pop) else {
                continue;
            };
            if let Some(member) = self.members.get_mut(&adopter) {
                member.replicas_of = Some(worker);
            }
            self.actions
                .push(Action::Order(JobOrder::AdoptStore { adopter, from }));
        }
    }
}
