//! Generations: the announcement, processes that are missing, and the beginning.

use super::drained_node::Drain;
use super::phase::Phase;
use super::{Job, PlacementQuery};
use crate::member::Member;
use crate::{Action, BegunGeneration};
use understudy_catalogue::{exit_status, message};
use understudy_messages::{GenerationStart, JobOrder};
use understudy_numbers::{Guardian, ProcessNumber};

/// Limit of generations in succession in which no process resumes the program.
const MAX_FRUITLESS_GENERATIONS: u32 = 30;

impl Job {
    /// Starts processes until enough workers live, at guardians of dead processes if possible.
    pub(super) fn start_missing(&mut self) {
        self.start_adopters();
        while (self.living.len() as u32) < self.workers && self.open_guardians().next().is_some() {
            let load = |guardian: &Guardian| self.load.get(guardian).copied().unwrap_or(0);
            let dead = self.members.values().filter(|member| !member.is_alive());
            let home = dead.map(|member| member.at).min_by_key(|guardian| {
                (
                    !self.guardians.contains(guardian),
                    load(guardian),
                    *guardian,
                )
            });
            self.start_next(home.unwrap_or(Guardian(0)));
        }
    }

    /// Announces the next generation.
    pub(super) fn announce_next_generation(&mut self) {
        self.start_missing();
        self.generation = self.generation.next();
        self.phase = Phase::Joining;
        let failed_at = self.failed_at.unwrap_or(self.happened_at);
        self.failed_at = Some(failed_at.min(self.happened_at));
        self.placement_query = PlacementQuery::default();
        self.drain.as_mut().map(Drain::forget_commits);
        // Spares do not report again that they are ready.
        let is_spare = |number: &&ProcessNumber| self.members[number].is_spare();
        self.unready = self
            .living
            .iter()
            .filter(|number| !is_spare(number))
            .copied()
            .collect();
        self.at_end.clear();
        self.actions.push(Action::announce(self.generation));
    }

    /// Begins the announced generation if enough processes are ready.
    pub(super) fn begin_if_ready(&mut self) {
        if self.unfinished.is_empty() && !self.members.values().any(Member::has_used_mpi) {
            // No process has used MPI.
            return self.end_with(0, None);
        }
        let ready = self.living.len() - self.unready.len();
        if ready < self.workers as usize
            || self
                .unready
                .iter()
                .any(|number| self.members[number].was_in_generation)
        {
            return;
        }
        // More adopters may be missing: a process that has a store by now cannot adopt another one.
        self.start_adopters();
        let is_first = !self.is_protected && !self.has_begun();
        if self.awaits_departure()
            || self.awaits_adopters()
            || (!is_first && self.awaits_placement_hints())
        {
            return;
        }
        let Some(ranks) = self.choose_ranks(is_first) else {
            return;
        };
        if self.fruitless_generations == MAX_FRUITLESS_GENERATIONS {
            self.print(message::no_progress(MAX_FRUITLESS_GENERATIONS).to_string());
            return self.end_with(exit_status::RECOVERY_FAILED, None);
        }
        self.fruitless_generations += 1;
        for number in &ranks {
            if let Some(member) = self.members.get_mut(number) {
                (member.was_in_generation, member.ready) = (true, Some(self.generation));
            }
        }
        self.assign_stores(&ranks);
        self.ranks.clone_from(&ranks);
        // Dead processes have no further effect.
        let open = &self.unfinished;
        self.members.retain(|number, _| open.contains(number));
        self.stillborn_processes = 0;
        self.broken_deadline = None;
        self.phase = Phase::Running;
        if is_first {
            // An earlier failure belongs to another start, or to another program of a script.
            self.failed_at = None;
        }
        let generation = self.generation;
        let spares = self.living.len() as u32 - self.workers;
        let start = GenerationStart {
            generation,
            is_first,
            spares,
            since_failure: self.failed_at.map(|at| self.now.saturating_sub(at)),
        };
        let beginning = BegunGeneration { start, ranks };
        self.actions.push(Action::Order(JobOrder::Begin(beginning)));
    }
}
