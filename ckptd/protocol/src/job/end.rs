//! The end of the job, successful or not.

use super::phase::Phase;
use super::{JOIN_TIMEOUT, Job};
use crate::{Action, Ending};
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_numbers::{Guardian, ProcessNumber};

/// Time in which the remaining processes can exit by themselves when the job ends early.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time in which the remaining processes can exit by themselves after `MPI_Abort`.
const ABORT_TIMEOUT: Duration = Duration::from_millis(100);

impl Job {
    /// True if some process has resumed the program.
    pub fn has_resumed(&self) -> bool {
        self.is_protected
    }

    /// True if the guardians were sent their exit status.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Handles the end of a process while the job ends.
    ///
    /// The job's status is that of a killed process, because no process repeats the work that the
    /// killed process may not have completed.
    pub(super) fn ended_at_the_end(
        &mut self,
        number: ProcessNumber,
        ending: Ending,
        is_at_end: bool,
    ) {
        let member = &self.members[&number];
        // A spare may fail because the other processes have left its MPI library. The program does
        // not need the spare, so its status does not count.
        if self.phase == (Phase::Ending { deadline: None })
            && self.is_protected
            && !member.has_resumed
        {
            return;
        }
        let at = member.at;
        if let (Ending::Signal(signal), true, 0) = (ending, is_at_end, self.status) {
            self.print(message::death_after_finalize(number, signal).to_string());
        }
        self.record_status(ending.status(), Some(at));
    }

    /// Ends the job if guardians have not joined in time.
    ///
    /// The death of a guardian before it joins is not reported.
    pub(super) fn end_if_guardians_missing(&mut self) {
        if self
            .join_deadline
            .is_some_and(|deadline| self.now >= deadline)
        {
            let (all, joined, time) = (
                self.workers + self.spares,
                self.joined_guardians(),
                JOIN_TIMEOUT.as_secs(),
            );
            self.print(message::processes_missing(all, joined, time).to_string());
            self.end_with(exit_status::RECOVERY_FAILED, None);
        }
    }

    pub(super) fn end_if_all_at_end(&mut self) {
        if self.at_end.len() as u32 >= self.workers {
            self.phase = Phase::Ending { deadline: None };
            self.actions.push(Action::end(true));
            self.kill_broken();
        }
    }

    /// Handles a process that begins to use MPI.
    ///
    /// After the end of a program, the first process that has used MPI in that program begins the
    /// next program of its script.
    pub(super) fn process_registered(&mut self, number: ProcessNumber) {
        let has_ended = self.phase == (Phase::Ending { deadline: None }) && self.status == 0;
        if has_ended && self.living.contains(&number) {
            if !self.members[&number].has_used_mpi() {
                // The process was started for the program that has ended, which did not need it.
                let generation = Some(self.generation);
                self.actions.push(Action::admit(number, generation));
                return self.actions.push(Action::end(true));
            }
            self.begin_next_program();
        }
        let generation = (!self.is_ending()).then_some(self.generation);
        self.actions.push(Action::admit(number, generation));
        // A replacement that was started when the job was lost needs no message.
        if generation.is_none() && self.status == 0 {
            self.print(message::process_too_late(number).to_string());
        }
    }

    /// Begins the next program of a script: clears all state of the previous program.
    fn begin_next_program(&mut self) {
        let is_whole = self.living.len() as u32 == self.workers + self.spares
            && self
                .living
                .iter()
                .all(|number| self.members[number].has_used_mpi());
        self.members
            .values_mut()
            .for_each(|member| *member = member.for_next_program());
        self.unready.clone_from(&self.living);
        self.at_end.clear();
        self.left_stores.clear();
        self.failed.clear();
        self.is_protected = false;
        (
            self.failed_generations,
            self.stillborn_processes,
            self.leaver,
        ) = (0, 0, None);
        self.generation = self.generation.next();
        self.phase = Phase::Joining;
        if !is_whole {
            self.print(message::DEATH_BETWEEN_PROGRAMS.into());
            self.end_with(exit_status::RECOVERY_FAILED, None);
        }
    }

    /// Ends the job early; processes that still run after [`EXIT_TIMEOUT`] are killed.
    pub(super) fn end_with(&mut self, status: i32, culprit: Option<Guardian>) {
        self.end_within(EXIT_TIMEOUT, status, culprit);
    }

    /// Ends the job on the request of a process.
    pub(super) fn abort(&mut self, status: i32, culprit: Guardian) {
        self.end_within(ABORT_TIMEOUT, status, Some(culprit));
    }

    fn end_within(&mut self, limit: Duration, status: i32, culprit: Option<Guardian>) {
        if self.is_ending() {
            return;
        }
        self.record_status(status, culprit);
        let deadline = Some(self.now + limit);
        self.phase = Phase::Ending { deadline };
        self.actions.push(Action::end(false));
    }

    pub(super) fn record_status(&mut self, status: i32, culprit: Option<Guardian>) {
        if self.status == 0 && status != 0 {
            (self.status, self.culprit) = (status, culprit);
        }
    }

    pub(super) fn end_all(&mut self, deadline: Option<Duration>) {
        if self.unfinished.is_empty() {
            let first = self.guardians.first().copied();
            let culprit = self
                .culprit
                .filter(|culprit| self.guardians.contains(culprit))
                .or(first);
            for &at in &self.guardians {
                let status = if Some(at) == culprit { self.status } else { 0 };
                self.actions.push(Action::leave(at, status));
            }
            self.phase = Phase::Over;
        } else if deadline.is_some_and(|deadline| self.now >= deadline) {
            self.phase = Phase::Ending { deadline: None };
            self.note_leaver();
            self.kill_all();
        }
    }

    /// Reports a process that has exited without `MPI_Finalize` while other processes still run.
    ///
    /// The program is incomplete, so the job's status is not zero.
    pub(super) fn note_leaver(&mut self) {
        let Some((number, was_in_generation)) = self.leaver.filter(|_| !self.living.is_empty())
        else {
            return;
        };
        if was_in_generation {
            let status = self.status;
            self.print(message::rank_without_finalize(number, status).to_string());
        }
        self.status = self.status.max(1);
    }

    pub(super) fn kill_all(&mut self) {
        let kill = |&number: &ProcessNumber| Action::kill(number, self.members[&number].at);
        self.actions.extend(self.living.iter().map(kill));
    }
}
