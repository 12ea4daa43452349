//! The start of a manager that follows one that has died.
//!
//! Guardians report their processes, and the next generation is begun.

use super::Job;
use super::drained_node::Drain;
use super::phase::Phase;
use crate::Action;
use crate::member::Member;
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_numbers::{Guardian, ProcessNumber};

impl Job {
    /// Returns the job as another manager would begin with it at `now`.
    ///
    /// The manager of another node was replaced, so that messages of its processes and orders to
    /// them may be lost. All living guardians report their processes again.
    #[must_use]
    pub fn awaiting_reports(&self, now: Duration) -> Job {
        let all = (0..self.workers + self.spares).map(Guardian);
        let is_dead = |it: &Guardian| match self.phase {
            // Guardians may not have joined yet.
            Phase::Gathering => self.absent.contains(it),
            _ => !self.guardians.contains(it),
        };
        Job {
            follows_manager: true,
            join_deadline: None,
            manager_failed_at: now,
            is_protected: self.is_protected,
            has_lost_output: self.has_printed(),
            absent: all.filter(is_dead).collect(),
            domains: self.domains.clone(),
            drain: self.drain.as_ref().map(Drain::restarted),
            leave_order: self.leave_order,
            // Processes of lost nodes are not reported, and their numbers must not be used again.
            next_number: self.next_number,
            generation: self.generation,
            failed_generations: self.failed_generations,
            fruitless_generations: self.fruitless_generations,
            restarts: self.restarts,
            failed_at: self.failed_at,
            now,
            ..Job::new(self.workers, self.spares).with_replenishing(self.replenishes)
        }
    }

    /// Handles guardians that have died before all had joined.
    pub(super) fn guardians_died_early(&mut self, guardians: &[Guardian]) {
        if !self.follows_manager {
            self.print(message::LAUNCHED_PROCESSES_DIED.into());
            return self.end_with(exit_status::RECOVERY_FAILED, None);
        }
        // What processes of a lost node have printed is unknown.
        self.has_lost_output |= self.join_deadline.is_none();
        self.absent.extend(guardians);
        self.start_if_all_have_joined();
    }

    /// Takes over when all guardians have joined and reported their processes, or are dead.
    pub(super) fn take_over(&mut self) {
        let (earlier, absent) = (
            std::mem::take(&mut self.earlier_processes),
            std::mem::take(&mut self.absent),
        );
        let has_ended = earlier.values().filter(|(_, history)| history.has_ended);
        let ended = has_ended.map(|(_, history)| history.generation).max();
        let last = earlier
            .values()
            .map(|(_, history)| history.generation)
            .max();
        let has_begun_after = |ended| {
            earlier
                .values()
                .any(|(_, history)| history.was_in_generation && history.generation > ended)
        };
        let began_after_end = ended.is_some_and(has_begun_after);
        self.generation = self.generation.max(last.unwrap_or_default());
        let first = self.next_number.max(self.workers + self.spares);
        self.next_number = earlier
            .keys()
            .last()
            .map_or(first, |last| first.max(last.0 + 1));
        // Processes of guardians that have died before they joined are left out.
        for (&number, (at, history)) in earlier
            .iter()
            .filter(|(_, (at, _))| self.nodes.contains_key(at))
        {
            self.living.insert(number);
            *self.load.entry(*at).or_default() += 1;
            self.members
                .insert(number, Member::from_history(*at, history));
        }
        (self.unready, self.unfinished) = (self.living.clone(), self.living.clone());
        // The process that has adopted a store has the newer state, even if it is dead by now.
        for from in earlier
            .values()
            .filter_map(|(_, history)| history.adopted_from)
        {
            if let Some(member) = self.members.get_mut(&from) {
                member.replicas_of = None;
            }
        }
        self.is_protected |= earlier
            .values()
            .any(|(_, history)| history.has_resumed || history.is_protected);
        self.phase = Phase::Joining;
        if began_after_end {
            self.print(message::MANAGER_DIED_BETWEEN_PROGRAMS.into());
            self.end_with(exit_status::RECOVERY_FAILED, None);
        } else if ended.is_some() {
            let workers = self.members.iter().filter(|(_, member)| member.has_resumed);
            self.at_end = workers.map(|(&number, _)| number).collect();
            self.phase = Phase::Ending { deadline: None };
            self.actions.push(Action::end(true));
        } else if self.has_begun() {
            self.happened_at = self.manager_failed_at;
            self.announce_next_generation();
            // Spares must report to this manager, too.
            self.unready.clone_from(&self.living);
        } else if self.is_protected {
            // All processes that may have a checkpoint were on nodes that are lost.
            self.print(message::ALL_WORKERS_DIED.into());
            self.end_with(exit_status::RECOVERY_FAILED, None);
        } else {
            self.start_absent();
        }
        self.guardians_died(&absent.into_iter().collect::<Vec<_>>());
    }

    /// Continues a start in which no generation has begun.
    ///
    /// Processes that were started already must report again.
    fn start_absent(&mut self) {
        let first = (0..self.workers + self.spares).map(ProcessNumber);
        let is_whole = first
            .clone()
            .all(|number| self.members.contains_key(&number));
        if self.has_lost_output && !is_whole {
            return self.refuse_restart();
        }
        if self.members.is_empty() {
            return self.start_all();
        }
        self.generation = self.generation.next();
        self.actions.push(Action::announce(self.generation));
        for number in first {
            if !self.members.contains_key(&number) {
                self.start(number, Guardian(number.0));
            }
        }
    }
}
