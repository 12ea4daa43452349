//! The start of a manager that follows one that has died.
//!
//! Guardians report their processes, and the next generation is begun.

use super::Job;
use super::phase::Phase;
use crate::Action;
use crate::member::Member;
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_numbers::{Guardian, ProcessNumber};

impl Job {
    /// Handles guardians that have died before all had joined.
    pub(super) fn guardians_died_early(&mut self, guardians: &[Guardian]) {
        if !self.follows_manager {
            self.print(message::LAUNCHED_PROCESSES_DIED.into());
            return self.end_with(exit_status::RECOVERY_FAILED, None);
        }
        self.absent.extend(guardians);
        self.start_if_all_are_there();
    }

    /// Takes over when all guardians have joined and reported their processes.
    pub(super) fn take_over(&mut self) {
        let (all, absent) = (
            std::mem::take(&mut self.earlier_processes),
            std::mem::take(&mut self.absent),
        );
        let has_ended = all.values().filter(|(_, known)| known.has_ended);
        let ended = has_ended.map(|(_, known)| known.generation).max();
        let last = all.values().map(|(_, known)| known.generation).max();
        let has_begun_after = |ended| {
            all.values()
                .any(|(_, known)| known.was_in_generation && known.generation > ended)
        };
        let is_between = ended.is_some_and(has_begun_after);
        self.generation = last.unwrap_or_default();
        let first = self.workers + self.spares;
        self.next_number = all
            .keys()
            .last()
            .map_or(first, |last| first.max(last.0 + 1));
        // A guardian that has died while it reported is left out.
        for (&number, (at, known)) in all
            .iter()
            .filter(|(_, (at, _))| self.nodes.contains_key(at))
        {
            self.living.insert(number);
            *self.load.entry(*at).or_default() += 1;
            self.members
                .insert(number, Member::from_history(*at, known));
        }
        (self.unready, self.unfinished) = (self.living.clone(), self.living.clone());
        // The process that has adopted a store has the newer state, even if it is dead by now.
        for from in all.values().filter_map(|(_, known)| known.adopted_from) {
            if let Some(member) = self.members.get_mut(&from) {
                member.replicas_of = None;
            }
        }
        self.is_protected = all
            .values()
            .any(|(_, known)| known.has_resumed || known.is_protected);
        self.phase = Phase::Joining;
        if is_between {
            self.print(message::MANAGER_DIED_BETWEEN_PROGRAMS.into());
            self.end_with(exit_status::RECOVERY_FAILED, None);
        } else if ended.is_some() {
            let workers = self.members.iter().filter(|(_, member)| member.has_resumed);
            self.at_end = workers.map(|(&number, _)| number).collect();
            self.phase = Phase::Ending { deadline: None };
            self.actions.push(Action::end(true));
        } else if self.has_begun() {
            // The failure of the earlier manager preceded the start of this one.
            self.happened_at = Duration::ZERO;
            self.announce_next_generation();
            // Spares must report to this manager, too.
            self.unready.clone_from(&self.living);
        } else {
            self.start_absent();
        }
        self.guardians_died(&absent.into_iter().collect::<Vec<_>>());
    }

    /// Continues a start in which no generation has begun.
    ///
    /// Processes that were started already must report again.
    fn start_absent(&mut self) {
        if self.members.is_empty() {
            return self.start_all();
        }
        self.generation = self.generation.next();
        self.actions.push(Action::announce(self.generation));
        for number in (0..self.workers + self.spares).map(ProcessNumber) {
            if !self.members.contains_key(&number) {
                self.start(number, Guardian(number.0));
            }
        }
    }
}
