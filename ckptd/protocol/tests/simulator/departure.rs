//! Workers of a node that is drained: they stand still after a commit.

use crate::simulated_process::{Process, Stage};
use crate::world::{CHECKPOINT, World};
use understudy_protocol::{Event, Generation, Guardian, Node, NodeEnd, ProcessNumber, ToManager};

impl World {
    /// Records an order to leave, or the withdrawal of one.
    pub fn note_order(&mut self, node: Node, end: NodeEnd) {
        let NodeEnd::AtCheckpoint { order } = end else {
            panic!("the job does not end a node at once")
        };
        self.leaving = (order % 2 == 1).then_some((node, order));
    }

    /// Records that a guardian exits.
    pub fn note_leave(&mut self, at: Guardian, status: i32) {
        self.statuses.insert(at, status);
        if !self.job.is_over() {
            self.drained = Some(self.node(at));
            let is_left = |it: &Process| it.node == self.node(at) && it.stage != Stage::Dead;
            assert!(
                !self.processes.values().any(is_left),
                "a drained node is free"
            );
        }
    }

    /// True if the process stands still.
    ///
    /// All workers of a node begin that at one checkpoint.
    pub fn stops_at_checkpoint(&mut self, number: ProcessNumber) -> bool {
        let process = &self.processes[&number];
        let Stage::Running(of, left) = process.stage else {
            return false;
        };
        let is_worker = process.part.is_some() && left < CHECKPOINT && of == process.page;
        if !is_worker || self.leaving.map(|(node, _)| node) != Some(process.node) || self.is_ending
        {
            return false;
        }
        let is_at_end = |it: &Process| it.node == process.node && it.stage == Stage::AtEnd(of);
        if self.standing != Some(of) && self.processes.values().any(is_at_end) {
            return false;
        }
        self.standing = Some(of);
        true
    }

    /// Reports that a worker stands still, with the truth about the replicas of its node.
    pub fn report_can_leave(&mut self, number: ProcessNumber, generation: Generation) {
        let node = self.processes[&number].node;
        let living = || self.processes.values().filter(|it| it.stage != Stage::Dead);
        let is_elsewhere = |part| {
            let mut others = living().filter(|it| it.node != node);
            others.any(|it| it.copies.contains(&part))
        };
        let mut parts = living()
            .filter(|it| it.node == node)
            .filter_map(|it| it.part);
        let is_replicated = parts.all(is_elsewhere);
        let message = ToManager::CanLeave {
            generation,
            order: self.leaving.map_or(0, |(_, order)| order),
            is_replicated,
        };
        self.send(number, Event::Message(number, message));
    }
}
