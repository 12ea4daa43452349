//! Draining of a node: its processes leave the job at a checkpoint.
//!
//! ```text
//!   processes elsewhere suffice ─► order to the node ─► all its workers stand still at a commit
//!     ─► they are killed ─► they and their output have ended ─► its guardians leave ─► generation
//! ```
//!
//! A worker that stands still after a commit has no effects after that checkpoint, so the recovery
//! repeats nothing that was written by the node.

use super::Job;
use super::deaths::SIGKILL;
use super::drained_node::Drain;
use super::phase::Phase;
use crate::{Action, Ending, Node};
use std::collections::BTreeSet;
use std::time::Duration;
use understudy_messages::NodeEnd;
use understudy_numbers::{Guardian, ProcessNumber};

/// Time limit for the end of killed processes and of their output.
const DEPARTURE_TIMEOUT: Duration = Duration::from_secs(10);

impl Job {
    /// Begins to drain a node; processes elsewhere must be possible.
    pub(super) fn begin_drain(&mut self, node: Node) {
        self.drain.get_or_insert_with(|| Drain::new(node));
    }

    /// True if this node is being drained, so that no process is placed there.
    ///
    /// False if no other node has guardians, or if a replica store must be adopted on the node.
    pub(super) fn is_draining(&self, node: Node) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.node == node)
            && self.guardians.iter().any(|it| self.nodes[it] != node)
            && !self
                .left_stores
                .values()
                .any(|it| self.node_of(*it) == node)
    }

    /// Returns the guardians that may start processes.
    pub(super) fn open_guardians(&self) -> impl Iterator<Item = Guardian> {
        let guardians = self.guardians.iter().copied();
        let closed = self.drain.as_ref().map(|drain| drain.node);
        let closed = closed.filter(|node| self.is_draining(*node));
        guardians.filter(move |it| closed.is_none_or(|node| self.nodes[it] != node))
    }

    /// Handles the end of a spare on the node that is being drained.
    pub(super) fn drained_spare_ended(&mut self) {
        self.start_missing();
        if self.replenishes {
            self.replenish(1);
        }
    }

    /// Records that a worker stands still after a commit.
    ///
    /// Ends the drain if other nodes do not have the replicas.
    pub(super) fn note_can_leave(&mut self, number: ProcessNumber, is_replicated: bool) {
        let node = self.node_of(number);
        let drain = self.drain.as_mut().filter(|drain| drain.node == node);
        if let (Some(drain), true) = (drain, is_replicated) {
            drain.at_commit.insert(number);
        } else {
            let why = "other hosts do not have the replicas of all its workers: it runs too many";
            self.give_up_drain(why.to_owned());
        }
    }

    /// Records the end of a process.
    pub(super) fn note_departed(&mut self, number: ProcessNumber) {
        if let Some(drain) = &mut self.drain {
            drain.departing.remove(&number);
        }
    }

    /// Continues without a drain that cannot be completed, unless processes were killed.
    pub(super) fn give_up_drain(&mut self, why: String) {
        let is_possible = |drain: &mut Drain| drain.deadline.is_none();
        if let Some(Drain { node, .. }) = self.drain.take_if(is_possible) {
            self.leave_order = self.leave_order.next_multiple_of(2);
            self.order_leave(node);
            self.actions.push(Action::RefuseDrain(why));
        }
    }

    /// Returns the living processes of a node, either former ranks or spares.
    fn living_on(&self, node: Node, was_in_generation: bool) -> Vec<ProcessNumber> {
        let is_meant = |number: &&ProcessNumber| {
            self.node_of(**number) == node
                && self.members[*number].was_in_generation == was_in_generation
        };
        self.living.iter().filter(is_meant).copied().collect()
    }

    /// Performs the next step of a drain, if it is possible.
    pub(super) fn advance_drain(&mut self) {
        let Some(drain) = &self.drain else { return };
        let (node, is_ordered) = (drain.node, drain.is_ordered);
        if matches!(self.phase, Phase::Running) {
            let workers = self.living_on(node, true);
            if !is_ordered && self.has_replacements(node, workers.len()) {
                self.order_to_leave(node);
            } else if is_ordered && !workers.is_empty() {
                self.kill_if_at_commit(&workers);
            }
        }
        let is_empty = !self
            .living
            .iter()
            .any(|number| self.node_of(*number) == node);
        let has_begun = self.drain.as_ref().is_some_and(|drain| drain.is_ordered);
        if matches!(self.phase, Phase::Joining | Phase::Running)
            && has_begun
            && is_empty
            && !self.awaits_departure()
        {
            self.release_guardians(node);
        }
    }

    /// True if spares elsewhere can replace this number of workers; starts missing spares.
    fn has_replacements(&mut self, node: Node, workers: usize) -> bool {
        let is_elsewhere = |number: &&ProcessNumber| {
            self.node_of(**number) != node && !self.members[*number].was_in_generation
        };
        let spares: Vec<ProcessNumber> = self.living.iter().filter(is_elsewhere).copied().collect();
        let is_worker_elsewhere = |number: &ProcessNumber| {
            self.node_of(*number) != node && self.members[number].was_in_generation
        };
        if workers > 0 && !self.living.iter().any(is_worker_elsewhere) {
            self.give_up_drain("it runs all workers, of which other hosts have no replicas".into());
            return false;
        }
        let missing = workers.saturating_sub(spares.len());
        if missing > 0 && (self.has_failed_to_replenish || !self.is_draining(node)) {
            let why = "other hosts have too few spares, and no process can be started there";
            self.give_up_drain(why.to_owned());
            return false;
        }
        (0..missing).for_each(|_| self.start_spare());
        let is_joined = |number: &&ProcessNumber| !self.unready.contains(number);
        spares.iter().filter(is_joined).count() >= workers
    }

    /// Orders the workers of the node to leave, and kills its spares.
    fn order_to_leave(&mut self, node: Node) {
        if let Some(drain) = &mut self.drain {
            drain.is_ordered = true;
        }
        self.leave_order |= 1;
        self.order_leave(node);
        for spare in self.living_on(node, false) {
            let at = self.members[&spare].at;
            self.actions.push(Action::kill(spare, at));
        }
    }

    fn order_leave(&mut self, node: Node) {
        let order = self.leave_order;
        let end = NodeEnd::AtCheckpoint { order };
        self.actions.push(Action::EndNode(node, end));
    }

    /// Kills the workers of the node if all of them stand still after a commit.
    ///
    /// The workers count as dead at once, so that the next generation cannot contain any of them.
    fn kill_if_at_commit(&mut self, workers: &[ProcessNumber]) {
        let deadline = self.now + DEPARTURE_TIMEOUT;
        let Some(drain) = &mut self.drain else { return };
        if !workers.iter().all(|it| drain.at_commit.contains(it)) {
            return;
        }
        drain.departing.extend(workers);
        drain.deadline = Some(deadline);
        for number in workers {
            let Some(member) = self.members.get_mut(number) else {
                continue;
            };
            // No process of this node adopts the replica store.
            member.replicas_of = None;
            let at = member.at;
            self.actions.push(Action::kill(*number, at));
        }
        for number in workers {
            self.process_ended(*number, Ending::Signal(SIGKILL));
        }
    }

    /// True if killed workers, or their output, have not ended yet.
    pub(super) fn awaits_departure(&self) -> bool {
        let Some(Drain {
            node,
            departing,
            deadline: Some(deadline),
            ..
        }) = &self.drain
        else {
            return false;
        };
        let is_open = |number: &ProcessNumber| self.node_of(*number) == *node;
        let has_left = departing.is_empty() && !self.unfinished.iter().any(is_open);
        !has_left && self.now < *deadline
    }

    /// Returns the time until which the end of killed workers is awaited.
    pub(super) fn departure_deadline(&self) -> Option<Duration> {
        self.drain.as_ref().and_then(|drain| drain.deadline)
    }

    /// Lets the guardians of the node exit.
    fn release_guardians(&mut self, node: Node) {
        self.drain = None;
        let (gone, left): (BTreeSet<Guardian>, _) =
            self.guardians.iter().partition(|it| self.nodes[it] == node);
        self.guardians = left;
        self.actions
            .extend(gone.into_iter().map(|it| Action::leave(it, 0)));
    }
}
