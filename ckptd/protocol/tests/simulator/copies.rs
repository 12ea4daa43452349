//! Workers of the simulated processes, and processes with replicas of each worker.

use crate::simulated_process::{Process, Stage};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use understudy_protocol::{Node, ProcessNumber, Worker};

impl World {
    /// Assigns workers to ranks.
    ///
    /// A surviving process keeps its worker. The workers of dead processes are assigned to
    /// processes that have adopted their replicas, if there are any.
    pub fn give_parts(&mut self, ranks: &[ProcessNumber]) {
        for part in Worker::all(self.workers as u32) {
            let find = |is_fit: &dyn Fn(&Process) -> bool| {
                ranks.iter().find(|it| is_fit(&self.processes[it])).copied()
            };
            if find(&|it| it.part == Some(part)).is_some() {
                continue;
            }
            let adopter = find(&|it| it.part.is_none() && it.of_dead == Some(part));
            let idle = adopter.or_else(|| find(&|it| it.part.is_none() && it.of_dead.is_none()));
            let number = idle
                .or_else(|| find(&|it| it.part.is_none()))
                .expect("a generation has as many ranks as workers");
            self.processes
                .get_mut(&number)
                .expect("a rank is a process")
                .part = Some(part);
        }
    }

    /// Checks that ranks have a replica of each worker, if any is left.
    ///
    /// Sets `is_doomed` if no replica of a worker with a checkpoint is left.
    pub fn check_copies(&mut self, ranks: &[ProcessNumber]) {
        let is_left =
            |it: &Process| !self.lost.contains(&it.node) && (it.keeps || it.stage != Stage::Dead);
        let all = self
            .processes
            .iter()
            .filter(|(_, process)| is_left(process));
        let (known, left): (Vec<_>, Vec<_>) = all.partition(|(number, _)| ranks.contains(number));
        let workers_of = |processes: &[(&ProcessNumber, &Process)]| -> BTreeSet<Worker> {
            processes
                .iter()
                .flat_map(|(_, it)| it.copies.iter().copied())
                .collect()
        };
        let (known, left) = (workers_of(&known), workers_of(&left));
        assert!(
            left.is_subset(&known),
            "ranks have replicas of {known:?}; other processes have replicas of {left:?}"
        );
        self.is_doomed |= !self.kept.is_subset(&known);
    }

    /// Commits a checkpoint if all workers have handed over replicas of themselves.
    ///
    /// Then each worker's replica is also given to a process of another node that has handed over
    /// its own replica, if there is such a process. Returns true if the checkpoint is committed.
    pub fn commit(&mut self) -> bool {
        let has_own = |it: &Process| it.part.is_some_and(|part| it.copies.contains(&part));
        let keeps = |it: &&Process| it.keeps && it.stage != Stage::Dead && has_own(it);
        let keepers = self.processes.values().filter(keeps);
        let of_parts: BTreeMap<Worker, Node> =
            keepers.filter_map(|it| Some((it.part?, it.node))).collect();
        let is_whole = of_parts.len() == self.workers;
        for (part, node) in of_parts.into_iter().filter(|_| is_whole) {
            self.kept.insert(part);
            let mut others = self
                .processes
                .values_mut()
                .filter(|process| process.node != node);
            if let Some(buddy) = others.find(|process| keeps(&&**process)) {
                buddy.copies.insert(part);
            }
        }
        is_whole
    }
}
