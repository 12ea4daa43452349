//! Death of a manager and takeover by another manager.
//!
//! On several nodes, the manager that dies is one without the leader, which begins again.

use crate::simulated_process::{Process, Stage};
use crate::world::World;
use understudy_protocol::{Event, Generation, Guardian, Job, Node, ProcessHistory, ToManager};

impl World {
    /// Replaces the manager by another one after its death.
    pub fn follow(&mut self) {
        self.managers -= 1;
        if !self.statuses.is_empty() {
            // Guardians have begun to exit, so the job's directory has been removed, and the other
            // guardians exit by themselves.
            self.is_over = true;
            let all = 0..self.size;
            self.statuses.extend(all.map(|it| (Guardian(it), 0)));
            return;
        }
        self.job = Job::new(self.workers as u32, self.size - self.workers as u32);
        self.job.note_other_manager();
        self.repeat_reports();
    }

    /// Replaces the manager of a node without the leader after its death.
    pub fn replace_remote_manager(&mut self, node: Node) {
        self.managers -= 1;
        if self.lost.contains(&node) {
            return;
        }
        if self.job.is_over() {
            let has_exited = |it: &Guardian| self.statuses.contains_key(it);
            let there = (0..self.size)
                .map(Guardian)
                .filter(|&it| self.node(it) == node);
            for guardian in there.filter(|it| !has_exited(it)).collect::<Vec<_>>() {
                self.happen_unseen(Event::GuardianJoined(guardian, node));
            }
        } else if self.job.is_ending() && self.job.status() != 0 {
            // Orders to kill processes may be lost.
            self.lose(node);
        } else {
            self.job = self.job.awaiting_reports(self.now);
            self.repeat_reports();
        }
    }

    /// Guardians of living nodes report their processes.
    fn repeat_reports(&mut self) {
        let mut ended = Vec::new();
        let is_known = |it: &Process| !it.is_forgotten && !self.lost.contains(&self.node(it.at));
        for (&number, process) in self.processes.iter().filter(|(_, it)| is_known(it)) {
            let is_initialized = process.stage != Stage::Starting && process.history.has_used_mpi;
            let known = ProcessHistory {
                generation: if is_initialized {
                    process.page
                } else {
                    Generation::default()
                },
                has_ended: is_initialized && self.is_ending,
                ..process.history
            };
            ended.push((number, process.at, known, process.ending));
        }
        if !ended.iter().any(|(_, _, known, _)| known.has_used_mpi) {
            // No process has been in a generation.
            self.begun.clear();
        }
        for guardian in (0..self.size).map(Guardian) {
            if self.lost.contains(&self.node(guardian)) {
                // The loss is reported later, or was reported before.
                if self.news.contains(&self.node(guardian)) {
                    self.awaited.push(guardian);
                }
                continue;
            }
            for &(number, at, known, _) in ended.iter().filter(|(_, at, ..)| *at == guardian) {
                self.happen_unseen(Event::ProcessReported(number, at, known));
            }
            self.happen_unseen(Event::GuardianJoined(guardian, self.node(guardian)));
        }
        for (number, .., ending) in ended {
            let events = self.events.entry(number).or_default();
            let is_read = self.nodes > 1 && self.random.below(2) == 0;
            events.retain(|event| !is_read && matches!(event, Event::Message(..)));
            let ends = |ending| [Event::Ended(number, ending), Event::OutputClosed(number, 0)];
            events.extend(ending.into_iter().flat_map(ends));
            let process = self.processes.get_mut(&number).expect("a process");
            match process.stage {
                // The process is ready for a generation of the dead manager, which the next
                // generation replaces.
                Stage::Spare if process.history.was_in_generation => {
                    process.stage = Stage::Ready(Generation::default())
                }
                Stage::Spare => events.push_back(Event::Message(
                    number,
                    ToManager::Ready {
                        generation: process.page,
                    },
                )),
                _ => {}
            }
        }
    }

    /// Handles an event without a death of the manager: all actions are executed.
    fn happen_unseen(&mut self, event: Event) {
        let actions = self.job.handle(self.now, event);
        actions.into_iter().for_each(|action| self.act(action));
    }
}
