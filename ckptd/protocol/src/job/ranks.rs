//! Ranks of a generation: surviving ranks, and a spare for each dead one.

use super::Job;
use crate::{Action, Node};
use std::collections::BTreeSet;
use understudy_messages::JobOrder;
use understudy_numbers::ProcessNumber;

/// A preferred spare.
enum Preference {
    On(Node),
    This(ProcessNumber),
}

impl Job {
    /// Chooses the ranks of the next generation, if there are enough processes.
    ///
    /// Each rank of the last generation keeps its number, and spares fill the gaps. So a worker's
    /// rank does not change: MPICH derives from its own rank on which side of an intercommunicator
    /// a process is (`determine_low_group`), and errs where other processes have come in between.
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
        let has_played = |number: &ProcessNumber| self.members[number].was_in_generation;
        let (mut ranks, mut spares): (Vec<ProcessNumber>, Vec<ProcessNumber>) =
            self.living.iter().partition(|it| has_played(it));
        spares.retain(is_ready);
        spares.sort_by_key(|spare| self.domains.has_lost_node(self.node_of(*spare)));
        for preference in self.preferences() {
            let is_it = |spare: &ProcessNumber| match preference {
                Preference::On(node) => self.node_of(*spare) == node,
                Preference::This(number) => *spare == number,
            };
            if ranks.len() < workers
                && let Some(at) = spares.iter().position(is_it)
            {
                ranks.push(spares.remove(at));
            }
        }
        let missing = workers.checked_sub(ranks.len())?;
        ranks.extend(spares.into_iter().take(missing));
        (ranks.len() == workers).then(|| self.in_order(ranks))
    }

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
            .filter_map(|same| chosen.get(same).or_else(|| others.next()));
        ranks.copied().collect()
    }

    /// Returns the preferred spares in order.
    ///
    /// First come processes that can adopt a replica store, then placement hints, then spares on
    /// nodes of dead processes, which can read what these have left there. The last rule does not
    /// hold where a node of the failure domain has been lost.
    fn preferences(&self) -> impl Iterator<Item = Preference> {
        let adopters = self
            .left_stores
            .values()
            .map(|&from| Preference::On(self.node_of(from)));
        let wished = self
            .placement_query
            .hints
            .iter()
            .map(|&it| Preference::This(it));
        let dead = self
            .members
            .iter()
            .filter(|(_, it)| it.was_in_generation && !it.lives());
        let dead =
            dead.filter(|(number, _)| !self.left_stores.values().any(|from| from == *number));
        let nodes = dead.map(|(&number, _)| self.node_of(number));
        let neighbours = nodes.filter(|node| !self.domains.has_lost_node(*node));
        adopters.chain(wished).chain(neighbours.map(Preference::On))
    }

    fn node_of(&self, number: ProcessNumber) -> Node {
        self.nodes[&self.members[&number].at]
    }

    /// Requests placement hints if a process can give them; returns true until they have arrived.
    pub(super) fn awaits_placement_hints(&mut self) -> bool {
        if self.placement_query.is_answered || self.failed.is_empty() {
            return false;
        }
        if !self.placement_query.is_sent {
            let mut living = self.living.iter().copied();
            let Some(number) = living
                .find(|it| self.members[it].was_in_generation && self.members[it].can_give_hints)
            else {
                return false;
            };
            self.placement_query.is_sent = true;
            let fallen = self.failed.iter().copied().collect();
            self.actions
                .push(Action::Order(JobOrder::RequestPlacementHints {
                    number,
                    failed: fallen,
                }));
        }
        true
    }
}
