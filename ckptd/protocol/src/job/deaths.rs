//! Failures of processes and the start of replacements.

use super::Job;
use super::phase::Phase;
use crate::member::Member;
use crate::{Action, Ending, Node};
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_messages::JobOrder;
use understudy_numbers::{Generation, Guardian, ProcessNumber};

/// Limit of processes that die before they have been in a generation.
///
/// The count begins anew with each generation.
const MAX_STILLBORN_PROCESSES: u32 = 10;
/// Limit of successive generations that fail without a death, or in which MPI libraries abort.
const MAX_FAILED_GENERATIONS: u32 = 10;
/// Time limit for the report of a failure, after an MPI library has aborted.
///
/// The library has probably aborted because of this failure. The limit is longer than a node may be
/// silent.
const BROKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of restarts from the beginning.
const MAX_RESTARTS: u32 = 5;
/// The number of SIGKILL on every system (signal(7)).
pub(super) const SIGKILL: i32 = 9;

/// Returns the resource limit that a process has exceeded if this signal ended it (setrlimit(2)).
fn limit_of(signal: i32) -> Option<&'static str> {
    match signal {
        24 => Some("its limit of CPU time (SIGXCPU, `ulimit -t`)"),
        25 => Some("its limit of file size (SIGXFSZ, `ulimit -f`)"),
        _ => None,
    }
}

impl Job {
    /// Handles the abort of a process's MPI library.
    ///
    /// The library may have found a connection closed before the death of the peer was reported. If
    /// the process still lives, the next generation resets its library. If no generation follows
    /// within [`BROKEN_TIMEOUT`], the process is killed and counts as dead.
    pub(super) fn library_aborted(&mut self, number: ProcessNumber, generation: Generation) {
        let is_first = !self
            .members
            .values()
            .any(|member| member.is_alive() && member.is_broken);
        let (is_ending, restarts_from_start) = (self.is_ending(), !self.is_protected);
        // The report is late if the process has left the library of that generation meanwhile.
        let is_in_generation =
            |member: &&mut Member| member.is_alive() && member.ready == Some(generation);
        let Some(member) = self.members.get_mut(&number).filter(is_in_generation) else {
            return;
        };
        member.is_broken = true;
        let at = member.at;
        if is_ending || restarts_from_start {
            // No further generation would reset the library.
            self.actions.push(Action::kill(number, at));
        } else if self.phase == Phase::Running {
            self.broken_deadline
                .get_or_insert(self.now + BROKEN_TIMEOUT);
        }
        self.failed_generations += u32::from(is_first && !is_ending);
        if self.failed_generations == MAX_FAILED_GENERATIONS && !is_ending {
            self.print(message::mpi_library_aborts(MAX_FAILED_GENERATIONS).to_string());
            self.end_with(exit_status::RECOVERY_FAILED, Some(at));
        }
    }

    /// True if the process lives.
    pub fn lives(&self, number: ProcessNumber) -> bool {
        self.living.contains(&number)
    }

    /// Kills a living process, whose death is then handled as any other.
    pub(super) fn replace(&mut self, number: ProcessNumber) {
        if let Some(member) = self.members.get(&number).filter(|it| it.is_alive()) {
            let at = member.at;
            self.actions.push(Action::kill(number, at));
        }
    }

    pub(super) fn kill_broken_if_due(&mut self) {
        if self.broken_deadline.is_some_and(|until| self.now >= until) {
            self.kill_broken();
        }
    }

    pub(super) fn kill_broken(&mut self) {
        self.broken_deadline = None;
        let broken = self
            .living
            .iter()
            .filter(|number| self.members[number].is_broken);
        let kill = |&number: &ProcessNumber| Action::kill(number, self.members[&number].at);
        self.actions.extend(broken.map(kill));
    }

    /// Handles the loss of a node: its replica stores are lost as well.
    pub(super) fn node_lost(&mut self, node: Node) {
        self.domains.lose(node);
        let nodes = &self.nodes;
        let is_on_node = |at: &Guardian| nodes.get(at) == Some(&node);
        let members = &mut self.members;
        self.left_stores
            .retain(|_, from| !is_on_node(&members[from].at));
        self.drain.take_if(|drain| drain.node == node);
        let lost_members = members.values_mut().filter(|member| is_on_node(&member.at));
        lost_members.for_each(|member| member.replicas_of = None);
        let lost_guardians: Vec<Guardian> =
            self.guardians.iter().copied().filter(is_on_node).collect();
        self.guardians_died(&lost_guardians);
    }

    pub(super) fn guardians_died(&mut self, guardians: &[Guardian]) {
        self.guardians
            .retain(|guardian| !guardians.contains(guardian));
        if self.phase == Phase::Gathering {
            return self.guardians_died_early(guardians);
        }
        let is_affected = |member: &Member| guardians.contains(&member.at) && !member.is_over();
        let affected: Vec<ProcessNumber> = self
            .members
            .iter()
            .filter(|(_, member)| is_affected(member))
            .map(|(&number, _)| number)
            .collect();
        for number in affected {
            self.note_departed(number);
            if self.members[&number].is_alive() {
                let at = self.members[&number].at;
                self.actions.push(Action::kill(number, at));
                self.process_ended(number, Ending::Signal(SIGKILL));
            }
            // The output of a lost process is unknown.
            self.output_closed(number, true);
        }
    }

    /// True if any living process may have a checkpoint.
    ///
    /// The manager may not have received [`Running`](understudy_messages::ToManager::Running); the
    /// processes report it in the next generation.
    pub(super) fn has_begun(&self) -> bool {
        self.living
            .iter()
            .any(|number| self.members[number].was_in_generation)
    }

    /// True if no generation has begun and the first generation is awaited.
    fn is_at_start(&self) -> bool {
        !self.is_protected && !self.has_begun() && self.is_joining()
    }

    /// Handles a generation that has failed without a death.
    pub(super) fn generation_failed(&mut self) {
        if !self.is_protected {
            return self.restart();
        }
        self.failed_generations += 1;
        if self.failed_generations < MAX_FAILED_GENERATIONS {
            return self.announce_next_generation();
        }
        self.print(message::mpi_failed(MAX_FAILED_GENERATIONS).to_string());
        self.end_with(exit_status::RECOVERY_FAILED, None);
    }

    pub(super) fn process_ended(&mut self, number: ProcessNumber, ending: Ending) {
        if let (Phase::Gathering, Ending::LauncherSignal(_)) = (self.phase, ending) {
            // The process stands for its guardian, which has no process that could receive the
            // signal.
            return self.end_with(ending.status(), None);
        }
        let Some(member) = self
            .members
            .get_mut(&number)
            .filter(|member| member.is_alive())
        else {
            return;
        };
        member.ending = Some(ending);
        let (at, has_used_mpi, was_in_generation) =
            (member.at, member.has_used_mpi(), member.was_in_generation);
        let is_spare = !was_in_generation && (self.is_protected || self.phase == Phase::Running);
        if let Some(worker) = member.replicas_of {
            // Of several processes of one worker, the last one that was started has the newest
            // replicas.
            let left = self.left_stores.entry(worker).or_insert(number);
            *left = number.max(*left);
        }
        if was_in_generation {
            self.failed.insert(number);
        }
        let is_at_end = self.at_end.contains(&number);
        self.remove_from_living(number, at);
        if matches!(self.phase, Phase::Restarting | Phase::Over) {
            return;
        }
        if self.is_ending() {
            return self.ended_at_the_end(number, ending, is_at_end);
        }
        match ending {
            _ if self.members[&number].is_broken => self.process_died(at, was_in_generation),
            Ending::Exit(_) | Ending::Signal(_) | Ending::OutOfMemory
                if is_spare && self.is_draining(self.nodes[&at]) =>
            {
                self.drained_spare_ended()
            }
            // The death of an idle spare has no consequence, but the launcher's signal is for the
            // whole job.
            Ending::Exit(_) | Ending::Signal(_) | Ending::OutOfMemory
                if is_spare && has_used_mpi =>
            {
                self.spare_died(number)
            }
            Ending::Exit(_) | Ending::Signal(_) | Ending::OutOfMemory
                if is_spare && self.phase == Phase::Running =>
            {
                self.stop_replenishing()
            }
            // A spare can replace the process, and already has memory. Only a new process would
            // need more memory.
            Ending::OutOfMemory
                if self.is_protected && self.living.len() as u32 >= self.workers =>
            {
                self.process_died(at, was_in_generation)
            }
            Ending::OutOfMemory => {
                self.print(message::REPLACEMENT_NEEDS_MEMORY.into());
                self.end_with(exit_status::RECOVERY_FAILED, Some(at))
            }
            // A replacement that exits before it uses MPI has failed: the process that it replaces
            // has used MPI.
            Ending::Exit(_) if !has_used_mpi && self.is_protected => {
                self.process_died(at, was_in_generation)
            }
            // The process does not use MPI.
            Ending::Exit(0) if !has_used_mpi => {}
            // The program, the runtime or the launcher has ended the process.
            Ending::Exit(_) | Ending::LauncherSignal(_) => {
                self.end_with(ending.status(), Some(at));
                self.leaver =
                    matches!(ending, Ending::Exit(_)).then_some((number, was_in_generation));
            }
            // After a restart from the beginning, a process would exceed the limit again.
            Ending::Signal(signal) if !self.is_protected && limit_of(signal).is_some() => {
                let limit = limit_of(signal).unwrap_or_default();
                self.print(message::resource_limit_exceeded(number, limit).to_string());
                self.end_with(ending.status(), Some(at))
            }
            // The program has ended itself by a signal.
            Ending::Signal(signal) if !has_used_mpi && signal != SIGKILL => {
                self.end_with(ending.status(), Some(at))
            }
            // The process has not used MPI; [`Job::revive`] starts it again alone.
            Ending::Signal(_) if !has_used_mpi && self.is_at_start() => {}
            Ending::Signal(_) => self.process_died(at, was_in_generation),
        }
    }

    /// Starts at most this number of spares, as many as are missing.
    pub(super) fn replenish(&mut self, spares: u32) {
        if self.is_ending() || self.has_failed_to_replenish {
            return;
        }
        let missing = (self.workers + self.spares).saturating_sub(self.living.len() as u32);
        (0..spares.min(missing)).for_each(|_| self.start_spare());
    }

    /// Starts a spare at the guardian with the fewest processes.
    pub(super) fn start_spare(&mut self) {
        let (number, first) = (ProcessNumber(self.next_number), Guardian(self.workers));
        let load = |guardian: &Guardian| self.load.get(guardian).copied().unwrap_or(0);
        let home = self
            .open_guardians()
            .min_by_key(|guardian| (load(guardian), *guardian != first, *guardian));
        self.start_next(home.unwrap_or(first));
        if let Some(member) = self.members.get_mut(&number) {
            member.is_replacement = true;
        }
    }

    /// Handles the death of an idle spare.
    fn spare_died(&mut self, number: ProcessNumber) {
        let spares = self.spares_left();
        self.print(message::spare_died(number, spares).to_string());
        self.actions.push(Action::Order(JobOrder::CountSpareDeath));
        self.start_missing();
        if self.replenishes {
            self.replenish(1);
        }
    }

    fn spares_left(&self) -> u32 {
        (self.living.len() as u32).saturating_sub(self.workers)
    }

    /// Handles the death of a spare before it was ready.
    ///
    /// The next spare would die in the same way.
    pub(super) fn stop_replenishing(&mut self) {
        self.has_failed_to_replenish = true;
        let spares = self.spares_left();
        self.print(message::no_new_spare(spares).to_string());
        self.give_up_drain("a new process on another host has failed".to_owned());
    }

    pub(super) fn remove_from_living(&mut self, number: ProcessNumber, at: Guardian) {
        for set in [&mut self.living, &mut self.unready, &mut self.at_end] {
            set.remove(&number);
        }
        if let Some(load) = self.load.get_mut(&at) {
            *load -= 1;
        }
        self.close_if_over(number);
    }

    /// Closes the record of a process that has exited and whose output has ended.
    ///
    /// Then [`revive`](Self::revive) starts the process again if it was killed before it used MPI.
    pub(super) fn close_if_over(&mut self, number: ProcessNumber) {
        if self.members.get(&number).is_some_and(Member::is_over) {
            self.unfinished.remove(&number);
            self.revive(number);
        }
    }

    pub(super) fn process_died(&mut self, at: Guardian, was_in_generation: bool) {
        if !self.is_protected && !self.has_begun() {
            return self.restart();
        }
        self.stillborn_processes += u32::from(!was_in_generation);
        if self.stillborn_processes > MAX_STILLBORN_PROCESSES {
            let count = self.stillborn_processes;
            self.print(message::replacements_died(count).to_string());
            return self.end_with(exit_status::RECOVERY_FAILED, Some(at));
        }
        if self.left_stores.is_empty()
            && !self
                .living
                .iter()
                .any(|number| self.members[number].was_in_generation)
        {
            self.print(message::ALL_WORKERS_DIED.into());
            return self.end_with(exit_status::RECOVERY_FAILED, Some(at));
        }
        self.announce_next_generation();
    }

    /// Kills all processes, as no checkpoint exists; the program then restarts from its beginning.
    pub(super) fn restart(&mut self) {
        self.phase = Phase::Restarting;
        self.kill_all();
    }

    pub(super) fn output_closed(&mut self, number: ProcessNumber, has_printed: bool) {
        if let Some(member) = self.members.get_mut(&number) {
            member.has_printed = Some(has_printed);
            self.close_if_over(number);
        }
    }

    pub(super) fn restart_if_all_are_over(&mut self) {
        if !self.unfinished.is_empty() {
            return;
        }
        if self.has_printed() || self.restarts == MAX_RESTARTS {
            return self.refuse_restart();
        }
        self.print(message::RESTART_FROM_START.into());
        self.restarts += 1;
        self.generation = self.generation.next();
        self.start_all();
    }

    /// True if a restart from the beginning would repeat output.
    pub(super) fn has_printed(&self) -> bool {
        let mut members = self.members.values();
        self.has_lost_output || members.any(|member| member.has_printed == Some(true))
    }

    /// Ends the job, which cannot be restarted from its beginning.
    pub(super) fn refuse_restart(&mut self) {
        let why = match self.has_printed() {
            true => "the program has already printed output, which would appear twice".into(),
            false => format!("{} starts have failed", MAX_RESTARTS + 1),
        };
        self.print(message::no_restart_from_start(why).to_string());
        self.end_with(exit_status::RECOVERY_FAILED, None);
    }

    /// Starts a process again that was killed before it used MPI.
    ///
    /// Does nothing after the start of the job. All processes are restarted instead if this process
    /// has printed output or was started again too often.
    pub(super) fn revive(&mut self, number: ProcessNumber) {
        let member = &self.members[&number];
        if !self.is_at_start() || member.has_used_mpi() || !member.is_killed() {
            return;
        }
        if member.has_printed == Some(true) || member.revivals == MAX_RESTARTS {
            return self.restart();
        }
        self.start(number, member.at);
    }
}
