//! Ranks of a generation: surviving ranks, and a replacement for each dead rank.

use super::Job;
use super::phase::Phase;
use crate::{Action, Node};
use std::collections::BTreeSet;
use understudy_messages::JobOrder;
use understudy_numbers::ProcessNumber;

/// Preference for a spare.
enum Preference {
    /// Any spare of this node.
    OnNode(Node),
    /// This spare.
    Process(ProcessNumber),
}

impl Job {
    /// Returns the process of each rank of the generation that runs; empty if none runs.
    pub fn running_ranks(&self) -> &[ProcessNumber] {
        match self.phase {
            Phase::Running => &self.ranks,
            _ => &[],
        }
    }

    /// Chooses the ranks of the next generation, if there are enough processes.
    ///
    /// Each survivor keeps its rank of the last generation, and spares fill the gaps. For example,
    /// with four workers the ranks were the processes 0, 1, 2, 3. After process 1 has failed, spare
    /// 4 fills the gap: the ranks are 0, 4, 2, 3, and not the sorted 0, 2, 3, 4, in which two
    /// survivors would have other ranks than before. MPICH needs constant ranks: it derives from
    /// its own rank on which side of an intercommunicator a process is (`determine_low_group`), and
    /// errs if the order of the members has changed.
    pub(super) fn choose_ranks(&self, is_first: bool) -> Option<Vec<ProcessNumber>> {
        let workers = self.workers as usize;
        let is_ready = |number: &ProcessNumber| !self.unready.contains(number);
        if is_first {
            // All spares are awaited: one that joined after the end of the program would be taken
            // for the next program of a script. Processes that were killed before they used MPI are
            // started again under their numbers.
            let is_whole =
                self.living.len() >= workers + self.spares as usize && self.unready.is_empty();
            return is_whole.then(|| self.living.iter().copied().take(workers).collect());
        }
        let was_in_generation = |number: &ProcessNumber| self.members[number].was_in_generation;
        let (mut ranks, mut spares): (Vec<ProcessNumber>, Vec<ProcessNumber>) = self
            .living
            .iter()
            .partition(|number| was_in_generation(number));
        spares.retain(is_ready);
        spares.sort_by_key(|spare| {
            let node = self.node_of(*spare);
            (self.is_draining(node), self.domains.has_lost_node(node))
        });
        for preference in self.preferences() {
            let is_preferred = |spare: &ProcessNumber| match preference {
                Preference::OnNode(node) => self.node_of(*spare) == node,
                Preference::Process(number) => *spare == number,
            };
            let is_preferred = |spare: &ProcessNumber| {
                is_preferred(spare) && !self.is_draining(self.node_of(*spare))
            };
            if ranks.len() < workers
                && let Some(index) = spares.iter().position(is_preferred)
            {
                ranks.push(spares.remove(index));
            }
        }
        let missing = workers.checked_sub(ranks.len())?;
        ranks.extend(spares.into_iter().take(missing));
        (ranks.len() == workers).then(|| self.in_order(ranks))
    }

    /// Orders the chosen processes by rank, as [`choose_ranks`](Self::choose_ranks) describes.
    fn in_order(&self, ranks: Vec<ProcessNumber>) -> Vec<ProcessNumber> {
        let chosen = BTreeSet::from_iter(ranks);
        if self.ranks.len() != chosen.len() {
            return Vec::from_iter(chosen);
        }
        let before = BTreeSet::from_iter(&self.ranks);
        let mut others = chosen.iter().filter(|number| !before.contains(number));
        let ranks = self
            .ranks
            .iter()
            .filter_map(|number| chosen.get(number).or_else(|| others.next()));
        ranks.copied().collect()
    }

    /// Returns the preferred spares in order.
    ///
    /// First come processes that can adopt a replica store, then placement hints, then spares on
    /// nodes of dead processes, which can read the files that the dead processes have left in
    /// memory. The last rule does not apply to a node whose failure domain has lost a node.
    fn preferences(&self) -> impl Iterator<Item = Preference> {
        let adopters = self
            .left_stores
            .values()
            .map(|&from| Preference::OnNode(self.node_of(from)));
        let hinted = self
            .placement_query
            .hints
            .iter()
            .map(|&spare| Preference::Process(spare));
        let dead = self
            .members
            .iter()
            .filter(|(_, member)| member.was_in_generation && !member.is_alive());
        let dead =
            dead.filter(|(number, _)| !self.left_stores.values().any(|from| from == *number));
        let nodes = dead.map(|(&number, _)| self.node_of(number));
        let neighbours = nodes.filter(|node| !self.domains.has_lost_node(*node));
        adopters
            .chain(hinted)
            .chain(neighbours.map(Preference::OnNode))
    }

    pub(super) fn node_of(&self, number: ProcessNumber) -> Node {
        self.nodes[&self.members[&number].at]
    }

    /// Requests placement hints if a process can give them; returns true until they have arrived.
    pub(super) fn awaits_placement_hints(&mut self) -> bool {
        if self.placement_query.is_answered || self.failed.is_empty() {
            return false;
        }
        if !self.placement_query.is_sent {
            let mut living = self.living.iter().copied();
            let Some(number) = living.find(|number| {
                self.members[number].was_in_generation && self.members[number].can_give_hints
            }) else {
                return false;
            };
            self.placement_query.is_sent = true;
            let failed = self.failed.iter().copied().collect();
            self.actions
                .push(Action::Order(JobOrder::RequestPlacementHints {
                    number,
                    failed,
                }));
        }
        true
    }
}
